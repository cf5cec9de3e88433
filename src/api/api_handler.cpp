#include "api/api_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <utility>

#include "api/errors.h"
#include "api/exchange.h"
#include "api/json_writer.h"
#include "api/openapi.h"
#include "api/request_checks.h"
#include "api/tokenize.h"
#include "api/version.h"

namespace hs {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

// Parts of OpenAI's API that this server knows of and does not have yet.
constexpr std::string_view kNotYet[] = {"/v1/embeddings", "/v1/messages"};

constexpr std::string_view kAllowGet = "GET, HEAD, OPTIONS";
constexpr std::string_view kAllowPost = "POST, OPTIONS";

bool is_get(std::string_view method) {
  return method == "GET";
}

// The size of a body as far as it is known: its own, or what the head announces; 0 for chunks that
// are still to come.
size_t body_bytes(const HttpRequest& request) {
  if (!request.body.empty()) return request.body.size();
  const std::string_view announced = request.header("content-length");
  size_t bytes = 0;
  std::from_chars(announced.data(), announced.data() + announced.size(), bytes);
  return bytes;
}

Error unknown_path(std::string_view path) {
  const bool not_yet = std::ranges::find(kNotYet, path) != std::end(kNotYet);
  return {
      ErrorKind::kNotFound,
      not_yet ? fmt::format("{} is not supported yet.", path) : "There is nothing at this path.",
      not_yet ? "not_supported" : "unknown_url", ""};
}

// What a route asks of a client once keys are on.
enum class Access { kOpen, kKey, kAdmin };

}  // namespace

struct ApiHandler::Route {
  std::string_view path;
  std::string_view method;  // GET (and so HEAD) or POST
  bool needs_model;         // 503 until it is loaded
  bool logged;              // one row in the request log
  Access access;
  void (ApiHandler::*answer)(Call);

  // "{id}" stands for any text that is not empty.
  bool matches(std::string_view asked) const {
    constexpr std::string_view kPlace = "{id}";
    const size_t place = path.find(kPlace);
    if (place == path.npos) return asked == path;
    const std::string_view before = path.substr(0, place);
    const std::string_view after = path.substr(place + kPlace.size());
    return asked.size() > before.size() + after.size() && asked.starts_with(before) &&
           asked.ends_with(after);
  }
  std::string allow() const { return std::string(is_get(method) ? kAllowGet : kAllowPost); }
};

const std::vector<ApiHandler::Route>& ApiHandler::routes() {
  static const std::vector<Route> kRoutes = {
      {"/v1/chat/completions", "POST", true, true, Access::kKey, &ApiHandler::chat},
      {"/v1/chat/completions/input_tokens", "POST", true, false, Access::kKey,
       &ApiHandler::count_chat},
      {"/v1/completions", "POST", true, true, Access::kKey, &ApiHandler::completion},
      {"/v1/responses", "POST", true, true, Access::kKey, &ApiHandler::response},
      {"/v1/responses/input_tokens", "POST", true, false, Access::kKey,
       &ApiHandler::count_response},
      {"/v1/models", "GET", false, false, Access::kKey, &ApiHandler::models},
      {"/v1/models/{id}", "GET", false, false, Access::kKey, &ApiHandler::model},
      {"/tokenize", "POST", true, false, Access::kKey, &ApiHandler::tokenize},
      {"/detokenize", "POST", true, false, Access::kKey, &ApiHandler::detokenize},
      {"/health", "GET", false, false, Access::kOpen, &ApiHandler::health},
      {"/ready", "GET", false, false, Access::kKey, &ApiHandler::ready},
      {"/version", "GET", false, false, Access::kKey, &ApiHandler::version},
      {"/openapi.json", "GET", false, false, Access::kKey, &ApiHandler::openapi},
      {"/metrics", "GET", false, false, Access::kAdmin, &ApiHandler::metrics},
      {"/debug/timeline", "GET", false, false, Access::kAdmin, &ApiHandler::timeline},
      {"/admin/state", "GET", false, false, Access::kAdmin, &ApiHandler::admin_state},
      {"/admin/settings", "GET", false, false, Access::kAdmin, &ApiHandler::admin_settings},
      {"/admin/doctor", "GET", false, false, Access::kAdmin, &ApiHandler::admin_doctor},
      {"/admin/requests", "GET", false, false, Access::kAdmin, &ApiHandler::admin_log},
      {"/admin/keys", "GET", false, false, Access::kAdmin, &ApiHandler::admin_keys},
      {"/admin/keys/create", "POST", false, false, Access::kAdmin, &ApiHandler::admin_create_key},
      {"/admin/keys/{id}/revoke", "POST", false, false, Access::kAdmin,
       &ApiHandler::admin_revoke_key},
      {"/admin/models", "GET", false, false, Access::kAdmin, &ApiHandler::admin_models},
      {"/admin/models/load", "POST", false, false, Access::kAdmin, &ApiHandler::admin_load_model},
      {"/admin/models/unload", "POST", false, false, Access::kAdmin,
       &ApiHandler::admin_unload_model},
      {"/admin/models/remove", "POST", false, false, Access::kAdmin,
       &ApiHandler::admin_remove_model},
      {"/admin/models/pull", "POST", false, false, Access::kAdmin, &ApiHandler::admin_pull_model},
      {"/admin/jobs", "GET", false, false, Access::kAdmin, &ApiHandler::admin_jobs},
      {"/admin/jobs/{id}/cancel", "POST", false, false, Access::kAdmin,
       &ApiHandler::admin_cancel_job},
      {"/admin/requests/{id}/cancel", "POST", false, false, Access::kAdmin,
       &ApiHandler::admin_cancel},
  };
  return kRoutes;
}

std::vector<std::pair<std::string_view, std::string_view>> ApiHandler::served_routes() {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const Route& route : routes()) out.emplace_back(route.path, route.method);
  return out;
}

const ApiHandler::Route* ApiHandler::find_route(std::string_view path) {
  for (const Route& route : routes())
    if (route.matches(path)) return &route;
  return nullptr;
}

ApiHandler::ApiHandler(const Loop& loop, WorkerPool& workers, const Clock& clock,
                       ApiOptions options)
    : loop_(loop), options_(std::move(options)), core_(workers, clock) {
  core_.limits = options_.limits;
  core_.log_row = options_.log_row;
  core_.costs = options_.costs;
  core_.bodies = std::make_shared<HeldBodies>(options_.held_bodies_bytes_max);
  core_.pixel_bytes_max = options_.pixel_bytes_max;
  if (!options_.served_names.empty()) metrics_name_ = options_.served_names.front();
}

ApiHandler::~ApiHandler() = default;

void ApiHandler::set_loading(std::string phase, int32_t percent) {
  absence_ = Absence::kLoading;
  phase_ = std::move(phase);
  percent_ = percent;
}

void ApiHandler::release_model(std::string phase) {
  core_.model.reset();
  set_loading(std::move(phase), 0);
}

void ApiHandler::forget_engine() {
  core_.engine = nullptr;
}

void ApiHandler::set_no_model(std::optional<Error> error) {
  absence_ = error ? Absence::kFailed : Absence::kNone;
  phase_ = error ? error->message : "no model is loaded";
  percent_ = 0;
}

void ApiHandler::set_model(std::shared_ptr<const ServedModel> model, Engine& engine,
                           double load_s) {
  core_.model = std::move(model);
  core_.engine = &engine;
  metrics_name_ = core_.model->names.front();
  load_s_ = load_s;
}

void ApiHandler::set_keys(const std::vector<ApiKey>& keys) {
  core_.keys.set_keys(keys);
}

void ApiHandler::begin_drain() {
  draining_ = true;
}

void ApiHandler::cancel_all(std::string_view why) {
  const auto exchanges = core_.exchanges;  // the set shrinks meanwhile
  for (const auto& exchange : exchanges)
    exchange->cancel({ErrorKind::kUnavailable, std::string(why), "shutting_down", ""}, "shutdown");
}

size_t ApiHandler::n_active() const {
  return core_.exchanges.size();
}

void ApiHandler::tick() {
  constexpr size_t kParts = 10;
  constexpr size_t kPartMin = 256;
  const auto& all = core_.exchanges;
  const size_t n = std::min(all.size(), std::max(all.size() / kParts + 1, kPartMin));
  auto next = all.upper_bound(ticked_);
  for (size_t i = 0; i < n; ++i, ++next) {
    if (next == all.end()) next = all.begin();
    ticked_ = next->get();
    (*next)->keep_alive(options_.keep_alive_ms * 1000);  // ends none of them
  }
}

Status ApiHandler::available() const {
  if (draining_)
    return fail(ErrorKind::kUnavailable, "The server is shutting down.", "shutting_down");
  if (core_.model == nullptr && absence_ == Absence::kNone)
    return fail(ErrorKind::kUnavailable, "No model is loaded.", "no_model");
  if (core_.model == nullptr && absence_ == Absence::kFailed)
    return fail(ErrorKind::kUnavailable, fmt::format("No model is loaded: {}", phase_), "no_model");
  if (core_.model == nullptr)
    return fail(ErrorKind::kUnavailable,
                fmt::format("The model is loading ({}, {} %).", phase_, percent_), "model_loading");
  return {};
}

std::string ApiHandler::request_id_of(const HttpRequest& request) {
  const std::string_view own = usable_request_id(request.header("x-request-id"));
  return own.empty() ? "req-" + core_.new_id() : std::string(own);
}

std::optional<HttpResponse> ApiHandler::check_head(const HttpRequest& head) {
  const Route* route = find_route(head.path);
  std::optional<Refusal> refusal = refuse(head, route);
  if (!refusal) return {};
  const std::string id = request_id_of(head);
  log_refusal(head, id, refusal->response.status, refusal->code);
  refusal->response.headers.push_back({"X-Request-Id", id});
  return std::move(refusal->response);
}

ApiHandler::Refusal ApiHandler::refusal_of(const Error& error) {
  return {error_response(error), error.code};
}

ApiHandler::Refusal ApiHandler::wrong_method(const HttpRequest& head, std::string allow) {
  if (head.method == "OPTIONS") return {HttpResponse{204, {{"Allow", std::move(allow)}}, ""}, ""};
  Refusal refusal =
      refusal_of({ErrorKind::kInvalidArgument, fmt::format("This path takes {}.", allow),
                  "method_not_allowed", ""});
  refusal.response.headers.push_back({"Allow", std::move(allow)});
  return refusal;
}

std::optional<ApiHandler::Refusal> ApiHandler::refuse(const HttpRequest& head,
                                                      const Route* route) const {
  const std::string_view host = head.header("host");
  if (options_.loopback_only && !host.empty() && !is_loopback_host(host))
    return refusal_of({ErrorKind::kInvalidArgument,
                       "This server answers only under the names localhost, 127.0.0.1 and [::1].",
                       "host_not_allowed", ""});
  if (auto refusal = refuse_key(head, route)) return refusal;
  if (route == nullptr) return refuse_page(head);
  if (head.method != route->method) return wrong_method(head, route->allow());
  if (route->method == "POST" && !is_json_content_type(head.header("content-type")))
    return refusal_of({ErrorKind::kInvalidArgument,
                       "The body's Content-Type must be application/json.",
                       "unsupported_media_type", ""});
  if (!route->needs_model) return {};
  if (const Status status = available(); !status) return refusal_of(status.error());
  if (const Status room = room_for_body(head); !room) return refusal_of(room.error());
  return {};
}

// Denied by default: only what is named here answers without a key. The page itself holds nothing
// of anybody's, and asks for the key.
std::optional<ApiHandler::Refusal> ApiHandler::refuse_key(const HttpRequest& head,
                                                          const Route* route) const {
  if (!core_.keys.on()) return {};
  if (route != nullptr && route->access == Access::kOpen) return {};
  if (route == nullptr && has_static(options_.pages, head.path)) return {};
  const ApiKey* key = core_.keys.find(head.header("authorization"));
  if (key == nullptr) {
    Refusal refusal =
        refusal_of({ErrorKind::kInvalidArgument,
                    "Give a good API key as 'Authorization: Bearer KEY'.", "invalid_api_key", ""});
    refusal.response.headers.push_back({"WWW-Authenticate", "Bearer"});
    return refusal;
  }
  if (route == nullptr) return {};
  if (route->access == Access::kAdmin && !key->admin)
    return refusal_of(
        {ErrorKind::kInvalidArgument, "This path needs an admin key.", "admin_key_needed", ""});
  if (!route->needs_model || route->access != Access::kKey) return {};
  const auto limited = core_.keys.check(*key, core_.clock.now_us());
  if (!limited) return {};
  Refusal refusal = refusal_of(limited->error);
  std::erase_if(refusal.response.headers,
                [](const HttpHeader& header) { return header.name == "Retry-After"; });
  refusal.response.headers.push_back({"Retry-After", std::to_string(limited->retry_after_s)});
  return refusal;
}

std::optional<ApiHandler::Refusal> ApiHandler::refuse_page(const HttpRequest& head) const {
  if (!has_static(options_.pages, head.path)) return refusal_of(unknown_path(head.path));
  if (!is_get(head.method)) return wrong_method(head, std::string(kAllowGet));
  return {};
}

Status ApiHandler::room_for_body(const HttpRequest& request) const {
  if (core_.bodies->has_room(body_bytes(request))) return {};
  return std::unexpected(queue_full());
}

void ApiHandler::log_refusal(const HttpRequest& head, const std::string& request_id, int status,
                             std::string code) {
  const Route* route = find_route(head.path);
  if (status < 400 || route == nullptr || !route->logged || !options_.log_row) return;
  RequestRow row;
  row.id = request_id;
  row.ts_ms = core_.clock.unix_ms();
  row.endpoint = head.path;
  row.client = head.peer.substr(0, head.peer.rfind(':'));
  if (const ApiKey* key = core_.keys.find(head.header("authorization"))) row.key_name = key->name;
  row.status = status;
  row.error_code = std::move(code);
  row.total_us = 0;
  options_.log_row(std::move(row));
}

void ApiHandler::handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  Call call{std::move(request), "", std::move(writer), "", {}};
  call.request_id = request_id_of(call.request);
  const Route* route = find_route(call.request.path);
  // The state may have changed while the body came.
  if (auto refusal = refuse(call.request, route)) {
    log_refusal(call.request, call.request_id, refusal->response.status, refusal->code);
    return reply(call, std::move(refusal->response));
  }
  if (const ApiKey* key = core_.keys.find(call.request.header("authorization"))) {
    call.key_name = key->name;
    if (route != nullptr && route->needs_model && route->access == Access::kKey)
      call.ticket = core_.keys.begin(*key, core_.clock.now_us());
  }
  if (route != nullptr) return (this->*route->answer)(std::move(call));
  reply(call, *serve_static(options_.pages, call.request));
}

void ApiHandler::reply(const Call& call, HttpResponse response) const {
  response.headers.push_back({"X-Request-Id", call.request_id});
  call.writer->send(std::move(response));
}

HttpResponse ApiHandler::protocol_error(int status, std::string_view message,
                                        const HttpRequest& head) {
  const std::string_view code = protocol_error_code(status);
  const std::string id = request_id_of(head);
  log_refusal(head, id, status, std::string(code));
  HttpResponse response = error_response(
      status, {ErrorKind::kInvalidArgument, std::string(message), std::string(code), ""});
  response.headers.push_back({"X-Request-Id", id});
  return response;
}

void ApiHandler::on_response_done(std::string_view method, std::string_view path, int status,
                                  int64_t duration_us) {
  static constexpr std::string_view kMethods[] = {"GET", "HEAD",   "POST", "OPTIONS",
                                                  "PUT", "DELETE", "PATCH"};
  const Route* route = find_route(path);
  const bool known = std::ranges::find(kMethods, method) != std::end(kMethods);
  // Labels come from our own tables, so that clients cannot make series without end.
  // Not what asks whether the server is ready: its 503 refuses nothing.
  if (status == 503 && path != "/ready") core_.metrics.on_refused();
  core_.metrics.on_http(known ? method : "other", route != nullptr ? route->path : "other", status,
                        static_cast<double>(duration_us) * 1e-6);
}

void ApiHandler::generate(Call call, PreparedRequest (*prepare)(const PreparationInput&)) {
  Exchange::begin(core_, std::move(call.request), std::move(call.request_id),
                  std::move(call.writer), std::move(call.key_name), std::move(call.ticket),
                  prepare);
}

void ApiHandler::chat(Call call) {
  generate(std::move(call), prepare_chat);
}

void ApiHandler::completion(Call call) {
  generate(std::move(call), prepare_completion);
}

void ApiHandler::response(Call call) {
  generate(std::move(call), prepare_response);
}

void ApiHandler::count_chat(Call call) {
  run_job(std::move(call), answer_chat_count);
}

void ApiHandler::count_response(Call call) {
  run_job(std::move(call), answer_response_count);
}

void ApiHandler::tokenize(Call call) {
  run_job(std::move(call), answer_tokenize);
}

void ApiHandler::detokenize(Call call) {
  run_job(std::move(call), answer_detokenize);
}

void ApiHandler::models(Call call) {
  std::string body = "{\"object\":\"list\",\"data\":[";
  if (core_.model != nullptr)
    for (const std::string& name : core_.model->names) {
      if (body.back() == '}') body += ',';
      body += model_json(*core_.model, name);
    }
  reply(call, json_response(200, body + "]}"));
}

void ApiHandler::model(Call call) {
  const auto name =
      percent_decoded(std::string_view(call.request.path).substr(kModelPrefix.size()));
  if (!name) return reply(call, error_response(name.error()));
  if (core_.model == nullptr) return reply(call, error_response(available().error()));
  if (!core_.model->has_name(*name))
    return reply(call, error_response(unknown_model(*core_.model)));
  reply(call, json_response(200, model_json(*core_.model, *name)));
}

void ApiHandler::health(Call call) {
  reply(call, json_response(200, "{\"status\":\"alive\"}"));
}

ApiHandler::Readiness ApiHandler::readiness() const {
  if (draining_) return {.status = "draining", .phase = "draining"};
  if (core_.model == nullptr) {
    const std::string_view status = absence_ == Absence::kLoading ? "loading"
                                    : absence_ == Absence::kNone  ? "empty"
                                                                  : "failed";
    return {.status = status, .phase = phase_, .percent = percent_};
  }
  const EngineStats stats = core_.engine->stats();
  Readiness result{.status = stats.degraded ? "degraded" : "ready", .phase = "serving"};
  if (!stats.serving) {
    result.status = "failed";
    result.phase = "no device left";
  }
  for (const LaneStats& lane : stats.lanes)
    if (lane.lost) result.lost_devices.push_back(lane.device);
  return result;
}

void ApiHandler::ready(Call call) {
  const Readiness now = readiness();
  std::string body = "{\"status\":";
  append_json_string(body, now.status);
  body += ",\"phase\":";
  append_json_string(body, now.phase);
  body += fmt::format(",\"percent\":{},\"lost_devices\":[", now.percent);
  for (const std::string& device : now.lost_devices) {
    if (body.back() != '[') body += ',';
    append_json_string(body, device);
  }
  HttpResponse response = json_response(now.takes_requests() ? 200 : 503, body + "]}");
  // What is lost does not come back by waiting.
  if (now.status == "loading" || now.status == "draining")
    response.headers.push_back({"Retry-After", "1"});
  reply(call, std::move(response));
}

void ApiHandler::version(Call call) {
  std::string body = "{\"version\":";
  append_json_string(body, hs::version());
  reply(call, json_response(200, body + '}'));
}

void ApiHandler::openapi(Call call) {
  reply(call, json_response(200, std::string(openapi_json())));
}

void ApiHandler::metrics(Call call) {
  ServerMetrics::Scrape scrape;
  scrape.model_name = metrics_name_;
  scrape.version = hs::version();
  if (core_.engine != nullptr) scrape.engine = core_.engine->stats();
  scrape.preparing = core_.n_preparing;
  scrape.held_body_bytes = core_.bodies->bytes();
  scrape.pixel_bytes = core_.pixel_bytes;
  scrape.ready = readiness().takes_requests();
  scrape.model_load_s = load_s_;
  if (options_.n_connections) scrape.n_connections = options_.n_connections();
  if (options_.log_rows_dropped) scrape.log_rows_dropped = options_.log_rows_dropped();
  scrape.lag = &loop_.lag();
  reply(call, {200,
               {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
               core_.metrics.text(scrape)});
}

std::string model_json(const ServedModel& model, std::string_view name) {
  std::string out = "{\"id\":";
  append_json_string(out, name);
  out += fmt::format(
      ",\"object\":\"model\",\"created\":{},\"owned_by\":\"heteroserve\",\"max_model_len\":{},"
      "\"input_modalities\":[\"text\"{}]}}",
      model.created_s, model.max_model_len, model.spec->has_vision ? ",\"image\"" : "");
  return out;
}

}  // namespace hs
