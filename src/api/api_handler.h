// The HTTP API: routes, what each answers, and the life of the server around them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/admin_state.h"
#include "api/api_core.h"
#include "api/model_admin.h"
#include "api/served_model.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "http/handler.h"
#include "http/static_files.h"
#include "loop/loop.h"
#include "loop/worker_pool.h"
#include "store/request_row.h"

namespace hs {

struct ApiOptions {
  PreparationLimits limits;
  // Bodies that wait for a worker or have one, together; more are refused with 503 "queue_full",
  // before they are read where their length is announced.
  size_t held_bodies_bytes_max = size_t{1} << 30;
  // Prepared pictures of all unfinished requests; more are refused likewise.
  size_t pixel_bytes_max = size_t{1} << 30;
  // Before the first model is loaded, for metrics; may be empty.
  std::vector<std::string> served_names;
  bool loopback_only = true;       // bound to loopback: foreign Host headers are refused
  int64_t keep_alive_ms = 10'000;  // silence on a stream before a comment is sent
  std::span<const StaticFile> pages;
  std::function<void(RequestRow)> log_row;     // never blocks
  CostAccount* costs = nullptr;                // of the log; null: nothing is reckoned
  std::function<uint64_t()> log_rows_dropped;  // for /metrics
  std::function<size_t()> n_connections;       // likewise
  // Reads the request log; called by workers. Empty: there is no log.
  std::function<Result<std::vector<RequestRow>>(const RequestFilter&)> find_rows;
  std::vector<SettingInfo> settings;  // for /admin/settings
  // For /admin/doctor: looks at the machine and gives JSON; called by workers, takes seconds.
  std::function<std::string()> doctor;
  // Files that workers read and write: API keys, and the request log with what each key used ("" =
  // no log).
  std::string keys_path;
  std::string log_path;
};

// Loop thread only. Everything given must outlive it.
class ApiHandler final : public HttpHandler {
 public:
  ApiHandler(const Loop& loop, WorkerPool& workers, const Clock& clock, ApiOptions options);
  ~ApiHandler() override;

  // What /ready says until the model is there: "reading weights", 40.
  void set_loading(std::string phase, int32_t percent);
  void set_model(std::shared_ptr<const ServedModel> model, Engine& engine, double load_s);
  // Takes the model from new requests, which get 503; those under way keep it. `phase` as above.
  void release_model(std::string phase);
  // What those used is about to go; REQUIRES: nobody holds the released model any more.
  void forget_engine();
  // What /ready says once there is neither a model nor one on its way; `error` of a failed load.
  void set_no_model(std::optional<Error> error);
  // Answers the routes of models; null: they are 404. Outlives the calls.
  void set_models(ModelAdmin* models);
  // Fetches what requests name by URL; null: nothing is. Outlives the calls; its policy is that of
  // the limits.
  void set_pictures(PictureFetcher* pictures) { core_.pictures = pictures; }
  // The keys of the file, revoked ones too; again whenever it changed. With none ever, no request
  // needs a key.
  void set_keys(const std::vector<ApiKey>& keys);
  // New requests get 503 from here on; those under way go on.
  void begin_drain();
  // Ends every request under way with an error.
  void cancel_all(std::string_view why);
  // Requests for chats, completions and responses that are not answered completely.
  size_t n_active() const;
  // Every path and method that is answered: ("/v1/models/{id}", "GET").
  static std::vector<std::pair<std::string_view, std::string_view>> served_routes();
  // Ten times a second: comments on silent streams, each time on a tenth of them or so, lest
  // thousands of writes hold up the loop.
  void tick();

  std::optional<HttpResponse> check_head(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override;
  HttpResponse protocol_error(int status, std::string_view message,
                              const HttpRequest& head) override;
  void on_response_done(std::string_view method, std::string_view path, int status,
                        int64_t duration_us) override;

 private:
  using Writer = std::shared_ptr<ResponseWriter>;
  struct Route;
  struct Call {
    HttpRequest request;
    std::string request_id;
    Writer writer;
    std::string key_name;  // "" = none was needed
    KeyTicket ticket;
  };
  static const std::vector<Route>& routes();
  static const Route* find_route(std::string_view path);

  // An answer that needs no body, and the code for the log; "" where it is no error.
  struct Refusal {
    HttpResponse response;
    std::string code;
  };
  static Refusal refusal_of(const Error& error);
  static Refusal wrong_method(const HttpRequest& head, std::string allow);
  std::optional<Refusal> refuse(const HttpRequest& head, const Route* route) const;
  std::optional<Refusal> refuse_key(const HttpRequest& head, const Route* route) const;
  std::optional<Refusal> refuse_page(const HttpRequest& head) const;
  Status room_for_body(const HttpRequest& request) const;
  Status available() const;
  struct Readiness {
    std::string_view status;  // ready, degraded, failed, draining, loading, empty
    std::string_view phase;
    int32_t percent = 100;
    std::vector<std::string> lost_devices = {};
    bool takes_requests() const { return status == "ready" || status == "degraded"; }
  };
  Readiness readiness() const;
  std::string request_id_of(const HttpRequest& request);
  void reply(const Call& call, HttpResponse response) const;
  struct BodyJob;
  void run_job(Call call, HttpResponse (*answer)(const PreparationInput&));
  void submit_job(const std::shared_ptr<BodyJob>& job);
  void fetch_for(const std::shared_ptr<BodyJob>& job);
  void log_refusal(const HttpRequest& head, const std::string& request_id, int status,
                   std::string code);

  void generate(Call call, PreparedRequest (*prepare)(const PreparationInput&));
  void chat(Call call);
  void completion(Call call);
  void response(Call call);
  void count_chat(Call call);
  void count_response(Call call);
  void models(Call call);
  void model(Call call);
  void tokenize(Call call);
  void detokenize(Call call);
  void health(Call call);
  void ready(Call call);
  void timeline(Call call);
  void version(Call call);
  void openapi(Call call);
  void metrics(Call call);
  // In admin_handler.cpp.
  void admin_state(Call call);
  void admin_settings(Call call);
  void admin_doctor(Call call);
  void admin_log(Call call);
  void admin_cancel(Call call);
  void admin_keys(Call call);
  void admin_create_key(Call call);
  void admin_revoke_key(Call call);
  // In admin_models.cpp.
  void admin_models(Call call);
  void admin_load_model(Call call);
  void admin_unload_model(Call call);
  void admin_remove_model(Call call);
  void admin_pull_model(Call call);
  void admin_jobs(Call call);
  void admin_cancel_job(Call call);
  void change_keys(Call call, std::function<HttpResponse()> change);  // `change` on a worker
  // `work` runs on a worker; `answer` then on the loop, after `done`, which is called in any case.
  void answer_from_worker(Call call, std::function<void()> work,
                          std::function<HttpResponse()> answer, std::function<void()> done = {});

  const Loop& loop_;
  const ApiOptions options_;
  ApiCore core_;
  ModelAdmin* models_ = nullptr;
  std::string metrics_name_;  // of the model that is or was served last
  std::string phase_ = "starting";
  int32_t percent_ = 0;
  enum class Absence { kLoading, kNone, kFailed };
  Absence absence_ = Absence::kLoading;  // why core_.model is null
  const Exchange* ticked_ = nullptr;     // the last one; it may be gone
  bool draining_ = false;
  bool examining_ = false;  // a worker is at /admin/doctor
  double load_s_ = 0;
};

// One entry of /v1/models.
std::string model_json(const ServedModel& model, std::string_view name);

}  // namespace hs
