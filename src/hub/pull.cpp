#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fetch/fetch.h"
#include "hub/digest.h"
#include "hub/download.h"
#include "model/architecture.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kConfigJsonBytesMax = 4 << 20;
constexpr int64_t kConfigMs = 60'000;
constexpr const char* kConfigName = "config.json";

bool has_hash(const RemoteFile& file, std::string_view bytes) {
  Digest digest =
      file.sha256.empty() ? Digest::git_blob(static_cast<int64_t>(bytes.size())) : Digest::sha256();
  digest.update(bytes);
  return digest.finish() == (file.sha256.empty() ? file.git_sha1 : file.sha256);
}

// What the model is, before anything large is fetched.
Result<std::string> fetch_architecture(const HubEndpoint& endpoint, const RemoteModel& model,
                                       const RemoteFile& config,
                                       const std::function<bool()>& cancelled) {
  FetchRequest request;
  request.url = file_url(endpoint, model, kConfigName);
  request.bearer_token = endpoint.token;
  request.limits.bytes_max = kConfigJsonBytesMax;
  request.limits.total_ms = kConfigMs;
  request.cancelled = cancelled;
  const auto answer = fetch(request);
  if (!answer) return std::unexpected(answer.error());
  if (answer->head.status != 200)
    return std::unexpected(hub_error(answer->head.status, answer->head.header("x-error-code"),
                                     fmt::format("config.json of {}", model.ref.repo()),
                                     !endpoint.token.empty()));
  if (!has_hash(config, answer->body))
    return fail(ErrorKind::kDataLoss,
                "config.json: the bytes do not have the hash that the repository tells.",
                "checksum");
  return supported_architecture(answer->body, kConfigName);
}

int64_t bytes_there(const fs::path& folder, const RemoteFile& file) {
  std::error_code error;
  for (const char* suffix : {"", ".part"}) {
    const auto size = fs::file_size(folder / (file.path + suffix), error);
    if (!error) return std::min(static_cast<int64_t>(size), file.bytes);
  }
  return 0;
}

bool is_installed(const ModelStore& store, const RemoteModel& model) {
  const auto found = store.find(model.ref.repo() + '@' + model.commit);
  return found && found->manifest.commit == model.commit;
}

std::string revision_of(const ModelRef& ref) {
  return ref.revision.empty() ? "main" : ref.revision;
}

}  // namespace

Result<PullPlan> plan_pull(const ModelStore& store, const HubEndpoint& endpoint,
                           const ModelRef& ref, const std::function<bool()>& cancelled) {
  auto model = ask_hub(endpoint, ref, cancelled);
  if (!model) return std::unexpected(model.error());
  auto files = runnable_files(model->files);
  if (!files) return std::unexpected(files.error());
  PullPlan plan;
  plan.model = *std::move(model);
  const auto config = std::ranges::find(*files, kConfigName, &RemoteFile::path);
  auto architecture = fetch_architecture(endpoint, plan.model, *config, cancelled);
  if (!architecture) return std::unexpected(architecture.error());
  plan.architecture = *std::move(architecture);
  const auto disk = store.space();
  if (!disk) return std::unexpected(disk.error());
  plan.disk = *disk;
  plan.installed = is_installed(store, plan.model);
  const fs::path folder = store.partial_path(ref, plan.model.commit);
  for (RemoteFile& file : *files) {
    const int64_t there = plan.installed ? file.bytes : bytes_there(folder, file);
    plan.bytes_total += file.bytes;
    plan.bytes_missing += file.bytes - there;
    if (file.path.ends_with(".safetensors")) plan.weight_bytes += file.bytes;
    plan.files.push_back({std::move(file), there});
  }
  return plan;
}

Status check_disk(const PullPlan& plan) {
  if (plan.fits_disk() || plan.bytes_missing == 0) return {};
  constexpr double kGb = 1e9;
  return fail(
      ErrorKind::kResourceExhausted,
      fmt::format("{:.2f} GB are missing and {:.2f} GB are free, of which {:.2f} GB (5 % of "
                  "the disk) stay free.",
                  static_cast<double>(plan.bytes_missing) / kGb,
                  static_cast<double>(plan.disk.free_bytes) / kGb,
                  static_cast<double>(plan.disk.reserve_bytes) / kGb),
      "no_space");
}

Result<StoredModel> run_pull(const ModelStore& store, const HubEndpoint& endpoint,
                             const PullPlan& plan, const PullHooks& hooks, const Clock& clock) {
  const ModelRef& ref = plan.model.ref;
  if (is_installed(store, plan.model)) return store.find(ref.repo() + '@' + plan.model.commit);
  if (Status fits = check_disk(plan); !fits) return std::unexpected(fits.error());
  auto staging = store.stage(ref, plan.model.commit);
  if (!staging) return std::unexpected(staging.error());
  ModelManifest manifest;
  manifest.repo = ref.repo();
  manifest.source = endpoint.url;
  manifest.revision = revision_of(ref);
  manifest.commit = plan.model.commit;
  manifest.architecture = plan.architecture;
  int64_t done = 0;
  for (const PullFile& file : plan.files) {
    const auto progress = [&](int64_t bytes, bool checking) {
      if (hooks.progress)
        hooks.progress({file.remote.path, checking, done + bytes, plan.bytes_total});
    };
    progress(0, false);
    auto sha256 = download({endpoint, plan.model, file.remote, staging->path, hooks, progress});
    if (!sha256) return std::unexpected(sha256.error());
    done += file.remote.bytes;
    manifest.files.push_back({file.remote.path, file.remote.bytes, *std::move(sha256)});
  }
  if (hooks.progress) hooks.progress({"", false, done, plan.bytes_total});
  manifest.installed_ms = clock.unix_ms();
  return store.install(*std::move(staging), std::move(manifest));
}

}  // namespace hs
