// The routes of the administration page: what runs now, the request log, the settings. Members of
// ApiHandler; loop thread only.
#include <algorithm>
#include <memory>
#include <utility>

#include "api/admin_state.h"
#include "api/api_handler.h"
#include "api/chrome_trace.h"
#include "api/errors.h"
#include "api/exchange.h"
#include "api/log_rows.h"
#include "api/query_fields.h"
#include "api/request_checks.h"
#include "api/version.h"

namespace hs {
namespace {

constexpr std::string_view kCancelPrefix = "/admin/requests/";
constexpr std::string_view kCancelSuffix = "/cancel";
constexpr int64_t kTimelineMsMax = 3'600'000;

}  // namespace

void ApiHandler::admin_state(Call call) {
  AdminState state;
  state.now_us = core_.clock.now_us();
  state.status = readiness().status;
  state.version = hs::version();
  state.n_preparing = core_.n_preparing;
  if (core_.model != nullptr) {
    state.model = core_.model.get();
    state.engine = core_.engine->stats();
    state.limits = core_.engine->config();
    state.links = core_.engine->links();
  }
  for (const auto& exchange : core_.exchanges) state.requests.push_back(exchange->running());
  std::ranges::stable_sort(state.requests, std::greater{}, &RunningRequest::age_us);
  reply(call, json_response(200, admin_state_json(state)));
}

void ApiHandler::admin_settings(Call call) {
  reply(call, json_response(200, settings_json(options_.settings)));
}

// One at a time: it takes a worker for seconds.
void ApiHandler::admin_doctor(Call call) {
  if (!options_.doctor)
    return reply(call, error_response({ErrorKind::kNotFound, "This server cannot examine itself.",
                                       "no_doctor", ""}));
  if (examining_)
    return reply(call, error_response({ErrorKind::kUnavailable,
                                       "Another examination is under way; try again shortly.",
                                       "examination_under_way", ""}));
  examining_ = true;
  auto text = std::make_shared<std::string>();
  answer_from_worker(
      std::move(call), [text, doctor = options_.doctor] { *text = doctor(); },
      [text] {
        HttpResponse response = json_response(200, std::move(*text));
        response.headers.push_back({"Cache-Control", "no-store"});
        return response;
      },
      [this] { examining_ = false; });
}

// A client may have given several requests the same id: all of them end.
void ApiHandler::admin_cancel(Call call) {
  std::string_view path = call.request.path;
  path.remove_prefix(kCancelPrefix.size());
  path.remove_suffix(kCancelSuffix.size());
  const auto id = percent_decoded(path);
  if (!id) return reply(call, error_response(id.error()));
  const auto exchanges = core_.exchanges;  // the set shrinks meanwhile
  int64_t n_cancelled = 0;
  for (const auto& exchange : exchanges) {
    if (exchange->request_id() != *id) continue;
    exchange->cancel({ErrorKind::kCancelled, "The request was cancelled by the server's operator.",
                      "cancelled_by_admin", ""},
                     "admin");
    ++n_cancelled;
  }
  if (n_cancelled == 0)
    return reply(call, error_response({ErrorKind::kNotFound, "No such request is running.",
                                       "request_not_found", ""}));
  reply(call, json_response(200, "{\"cancelled\":" + std::to_string(n_cancelled) + "}"));
}

// Read and written by a worker: the disk may be slow, and the log long.
void ApiHandler::admin_log(Call call) {
  if (!options_.find_rows)
    return reply(call, error_response({ErrorKind::kNotFound, "The request log is switched off.",
                                       "no_request_log", ""}));
  auto query = parse_log_query(call.request.query);
  if (!query) return reply(call, error_response(query.error()));
  struct Job {
    LogQuery query;
    HttpResponse response;
  };
  auto job = std::make_shared<Job>(*std::move(query));
  const auto work = [job, find = options_.find_rows] {
    const auto rows = find(job->query.filter);
    job->response =
        rows ? HttpResponse{200,
                            {{"Content-Type", std::string(log_content_type(job->query.format))},
                             {"Cache-Control", "no-store"}},
                            log_rows_text(*rows, job->query.format)}
             : error_response(rows.error());
  };
  answer_from_worker(std::move(call), work, [job] { return std::move(job->response); });
}

// Written by a worker: thousands of events would hold up the loop.
void ApiHandler::timeline(Call call) {
  if (core_.model == nullptr) return reply(call, error_response(available().error()));
  QueryReader query(call.request.query);
  const int64_t last_ms = query.integer("last_ms", 0, 1, kTimelineMsMax);
  if (const Status read = query.status(); !read) return reply(call, error_response(read.error()));
  const int64_t now_us = core_.clock.now_us();
  auto lanes = std::make_shared<std::vector<LaneTimeline>>(core_.engine->timeline());
  auto trace = std::make_shared<std::string>();
  const auto work = [lanes, trace, now_us, last_ms] {
    if (last_ms > 0)
      for (LaneTimeline& lane : *lanes)
        std::erase_if(lane.entries, [&](const TimelineEntry& entry) {
          return entry.finished_us < now_us - last_ms * 1000;
        });
    *trace = chrome_trace(*lanes, now_us);
  };
  answer_from_worker(std::move(call), work,
                     [trace] { return json_response(200, std::move(*trace)); });
}

void ApiHandler::answer_from_worker(Call call, std::function<void()> work,
                                    std::function<HttpResponse()> answer,
                                    std::function<void()> done) {
  auto shared_call = std::make_shared<Call>(std::move(call));
  const auto submitted = core_.workers.submit(
      std::move(work), [this, shared_call, answer = std::move(answer), done](const Status& ran) {
        if (done) done();
        reply(*shared_call, ran ? answer() : error_response(ran.error()));
      });
  if (submitted) return;
  if (done) done();
  reply(*shared_call, error_response(queue_full()));
}

}  // namespace hs
