// The routes that manage models and their downloads. Members of ApiHandler; files and the hub are
// read by workers.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/api_handler.h"
#include "api/errors.h"
#include "api/json_parser.h"
#include "api/models_json.h"
#include "api/object_reader.h"
#include "api/query_fields.h"
#include "api/request_checks.h"

namespace hs {
namespace {

constexpr std::string_view kJobPrefix = "/admin/jobs/";
constexpr std::string_view kCancelSuffix = "/cancel";

Error no_models() {
  return {ErrorKind::kNotFound, "This server has no model store.", "no_model_store", ""};
}

// {"model", "dry_run"}
struct ModelFields {
  std::string model;
  bool dry_run = false;
};

Result<ModelFields> read_fields(std::string_view body, bool takes_dry_run) {
  const auto parsed = parse_json(body, {.depth_max = 4, .values_max = 100});
  if (!parsed) return std::unexpected(parsed.error());
  if (!parsed->is_object())
    return fail(ErrorKind::kInvalidArgument, "The body must be an object.", "invalid_value");
  ObjectReader reader(*parsed, "");
  ModelFields fields;
  if (const std::string* model = reader.string("model")) fields.model = *model;
  if (fields.model.empty()) reader.fail_field("model", "Name a model.");
  if (takes_dry_run) fields.dry_run = reader.boolean("dry_run").value_or(false);
  for (const std::string& name : reader.unknown())
    reader.fail_field(name, "There is no such field.");
  if (const Status read = reader.status(); !read) return std::unexpected(read.error());
  return fields;
}

HttpResponse fresh_json(int status, std::string body) {
  HttpResponse response = json_response(status, std::move(body));
  response.headers.push_back({"Cache-Control", "no-store"});
  return response;
}

HttpResponse answer_list(const ModelStore& store, const ServedState& served) {
  const auto models = store.list();
  if (!models) return error_response(models.error());
  const auto partials = store.partials();
  if (!partials) return error_response(partials.error());
  const auto space = store.space();
  std::string body = "{\"models\":[";
  for (const StoredModel& model : *models) {
    if (body.back() == '}') body += ',';
    const bool is_served = !served.id.empty() && served.id == model.id();
    body += stored_model_json(model, is_served ? to_string(served.stage) : "stored");
  }
  body += "],\"partials\":[";
  for (const PartialModel& partial : *partials) {
    if (body.back() == '}') body += ',';
    body += partial_model_json(partial);
  }
  body += "],\"free_bytes\":" + (space ? std::to_string(space->free_bytes) : "null");
  return fresh_json(200, body + ",\"served\":" + served_state_json(served) + '}');
}

HttpResponse answer_plan(ModelAdmin& models, const ModelRef& ref) {
  const auto plan = plan_pull(models.store(), models.endpoint(), ref, {});
  if (!plan) return error_response(plan.error());
  return fresh_json(200, pull_plan_json(*plan, models.memory_fit(*plan)));
}

}  // namespace

void ApiHandler::set_models(ModelAdmin* models) {
  models_ = models;
}

void ApiHandler::admin_models(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  auto response = std::make_shared<HttpResponse>();
  answer_from_worker(
      std::move(call),
      [response, store = models_->store(), served = models_->state()] {
        *response = answer_list(store, served);
      },
      [response] { return std::move(*response); });
}

void ApiHandler::admin_load_model(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  auto fields = read_fields(call.request.body, false);
  if (!fields) return reply(call, error_response(fields.error()));
  auto target = std::make_shared<Result<LoadTarget>>();
  answer_from_worker(
      std::move(call),
      [target, models = models_, name = fields->model] { *target = models->find(name); },
      [target, models = models_] {
        if (!*target) return error_response(target->error());
        if (const Status begun = models->load(**std::move(target)); !begun)
          return error_response(begun.error());
        return fresh_json(202, served_state_json(models->state()));
      });
}

void ApiHandler::admin_unload_model(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  if (const Status begun = models_->unload(); !begun)
    return reply(call, error_response(begun.error()));
  reply(call, fresh_json(202, served_state_json(models_->state())));
}

void ApiHandler::admin_remove_model(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  auto fields = read_fields(call.request.body, false);
  if (!fields) return reply(call, error_response(fields.error()));
  auto response = std::make_shared<HttpResponse>();
  answer_from_worker(
      std::move(call),
      [response, store = models_->store(), name = fields->model] {
        const auto model = store.find(name);
        const Status removed = model ? store.remove(*model) : std::unexpected(model.error());
        *response = removed ? fresh_json(200, stored_model_json(*model, "removed"))
                            : error_response(removed.error());
      },
      [response] { return std::move(*response); });
}

void ApiHandler::admin_pull_model(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  auto fields = read_fields(call.request.body, true);
  if (!fields) return reply(call, error_response(fields.error()));
  auto ref = parse_model_ref(fields->model);
  if (!ref) return reply(call, error_response(ref.error()));
  if (!fields->dry_run) {
    const auto job = models_->jobs().start(*ref);
    return reply(call, job ? fresh_json(202, pull_job_json(*job)) : error_response(job.error()));
  }
  auto response = std::make_shared<HttpResponse>();
  answer_from_worker(
      std::move(call),
      [response, models = models_, ref = *std::move(ref)] {
        *response = answer_plan(*models, ref);
      },
      [response] { return std::move(*response); });
}

void ApiHandler::admin_jobs(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  std::string body = "{\"jobs\":[";
  for (const PullJobState& job : models_->jobs().list()) {
    if (body.back() == '}') body += ',';
    body += pull_job_json(job);
  }
  reply(call, fresh_json(200, body + "]}"));
}

void ApiHandler::admin_cancel_job(Call call) {
  if (models_ == nullptr) return reply(call, error_response(no_models()));
  std::string_view path = call.request.path;
  path.remove_prefix(kJobPrefix.size());
  path.remove_suffix(kCancelSuffix.size());
  const auto id = percent_decoded(path);
  if (!id) return reply(call, error_response(id.error()));
  const auto job = models_->jobs().cancel(*id);
  reply(call, job ? fresh_json(200, pull_job_json(*job)) : error_response(job.error()));
}

}  // namespace hs
