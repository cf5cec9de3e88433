#include "api/models_json.h"

#include <fmt/format.h>

#include "api/json_writer.h"

namespace hs {
namespace {

std::string error_or_null(const std::optional<Error>& error) {
  if (!error) return "null";
  return fmt::format("{{\"code\":{},\"message\":{}}}", json_string(error->code),
                     json_string(error->message));
}

std::string file_json(const StoredFile& file) {
  return fmt::format("{{\"path\":{},\"bytes\":{},\"sha256\":{}}}", json_string(file.path),
                     file.bytes, json_string(file.sha256));
}

std::string plan_file_json(const PullFile& file) {
  return fmt::format("{{\"path\":{},\"bytes\":{},\"bytes_there\":{}}}",
                     json_string(file.remote.path), file.remote.bytes, file.bytes_there);
}

std::string card_json(const MemoryFit::Card& card) {
  return fmt::format("{{\"name\":{},\"memory_bytes\":{},\"fits\":{}}}", json_string(card.name),
                     card.memory_bytes, card.fits);
}

}  // namespace

std::string_view to_string(ServedState::Stage stage) {
  switch (stage) {
    case ServedState::Stage::kEmpty:
      return "empty";
    case ServedState::Stage::kDraining:
      return "draining";
    case ServedState::Stage::kLoading:
      return "loading";
    case ServedState::Stage::kReady:
      return "ready";
  }
  return "empty";
}

std::string stored_model_json(const StoredModel& model, std::string_view state) {
  const ModelManifest& manifest = model.manifest;
  return fmt::format(
      "{{\"model\":{},\"id\":{},\"revision\":{},\"commit\":{},\"architecture\":{},\"bytes\":{},"
      "\"source\":{},\"path\":{},\"installed_ms\":{},\"state\":{},\"files\":[{}]}}",
      json_string(manifest.repo), json_string(model.id()), json_string(manifest.revision),
      json_string(manifest.commit), json_string(manifest.architecture), manifest.bytes(),
      json_string(manifest.source), json_string(model.path.string()), manifest.installed_ms,
      json_string(state), json_list(manifest.files, file_json));
}

std::string partial_model_json(const PartialModel& partial) {
  return fmt::format("{{\"model\":{},\"commit\":{},\"bytes\":{}}}", json_string(partial.repo),
                     json_string(partial.commit), partial.bytes);
}

std::string served_state_json(const ServedState& state) {
  return fmt::format(
      "{{\"state\":{},\"model\":{},\"id\":{},\"phase\":{},\"percent\":{},\"error\":{}}}",
      json_string(to_string(state.stage)), state.model.empty() ? "null" : json_string(state.model),
      state.id.empty() ? "null" : json_string(state.id), json_string(state.phase), state.percent,
      error_or_null(state.error));
}

std::string pull_plan_json(const PullPlan& plan, const MemoryFit& fit) {
  return fmt::format(
      "{{\"model\":{},\"commit\":{},\"architecture\":{},\"installed\":{},\"bytes_total\":{},"
      "\"bytes_missing\":{},\"files\":[{}],\"disk\":{{\"free_bytes\":{},\"reserve_bytes\":{},"
      "\"fits\":{}}},\"memory\":{{\"weight_bytes\":{},\"available_bytes\":{},\"fits\":{}}},"
      "\"cards\":[{}]}}",
      json_string(plan.model.ref.repo()), json_string(plan.model.commit),
      json_string(plan.architecture), plan.installed, plan.bytes_total, plan.bytes_missing,
      json_list(plan.files, plan_file_json), plan.disk.free_bytes, plan.disk.reserve_bytes,
      plan.fits_disk(), fit.needed_bytes, fit.available_bytes, fit.fits(),
      json_list(fit.cards, card_json));
}

std::string pull_job_json(const PullJobState& job) {
  return fmt::format(
      "{{\"id\":{},\"kind\":\"pull\",\"model\":{},\"state\":{},\"file\":{},\"checking\":{},"
      "\"bytes_done\":{},\"bytes_total\":{},\"bytes_per_s\":{},\"error\":{},\"created_ms\":{},"
      "\"finished_ms\":{}}}",
      json_string(job.id), json_string(job.model), json_string(to_string(job.phase)),
      json_string(job.progress.file), job.progress.checking, job.progress.bytes_done,
      job.progress.bytes_total, job.bytes_per_s, error_or_null(job.error), job.created_ms,
      job.finished_ms == 0 ? "null" : std::to_string(job.finished_ms));
}

}  // namespace hs
