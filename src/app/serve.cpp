// `heteroserve serve`: binds first, so that /health and the page answer while the model loads.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/api_handler.h"
#include "api/picture_fetcher.h"
#include "app/commands.h"
#include "app/descriptors.h"
#include "app/doctor.h"
#include "app/environment.h"
#include "app/exit_codes.h"
#include "app/key_watch.h"
#include "app/model_manager.h"
#include "app/model_source.h"
#include "app/power_sampler.h"
#include "app/served_engine.h"
#include "app/service_manager.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/server.h"
#include "http/static_files.h"
#include "kernels/isa.h"
#include "loop/loop.h"
#include "loop/signal_watcher.h"
#include "loop/timer.h"
#include "loop/worker_pool.h"
#include "store/cost_account.h"
#include "store/request_log.h"
#include "store/request_row.h"

namespace hs {
namespace {

constexpr int64_t kTickMs = 1000;
constexpr int64_t kCommentsMs = 100;
constexpr int64_t kProgressLogMs = 5000;
constexpr int64_t kAfterCancelMs = 2000;  // for what was cancelled to send its last event
constexpr int64_t kIdleWaitMs = 2000;     // for lanes and workers to finish their work in hand
constexpr int64_t kIdlePollMs = 5;
constexpr int64_t kLogCloseMs = 2000;
// Threads that decode pictures and make prompts. One a core, so that a burst of pictures uses the
// machine; more than one even on the smallest, because the model's load takes one.
constexpr unsigned kWorkersMin = 4;
constexpr unsigned kWorkersMax = 16;

bool is_loopback_address(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<std::unique_ptr<RequestLog>> open_log(const Config& config, const Clock& clock) {
  if (!config.keeps_log()) return nullptr;
  std::error_code error;
  const auto folder = std::filesystem::path(config.log_path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  RequestLogOptions options;
  options.retention_days = config.log_retention_days;
  options.retention_bytes = int64_t{config.log_retention_mib} << 20;
  auto log = RequestLog::open(config.log_path, options, clock);
  if (!log)
    return fail(log.error().kind,
                fmt::format("{} (--log-path; none switches the log off)", log.error().message));
  return log;
}

// The whole server. Members are destroyed last to first: no connection, request or job outlives
// what it uses.
class Server {
 public:
  explicit Server(const LoadedConfig& loaded)
      : config_(loaded.config),
        values_(loaded.values),
        watchdog_(manager_, int64_t{config_.hang_timeout_s} * 1'000'000),
        costs_(clock_, config_.price_kwh),
        workers_(loop_, static_cast<size_t>(config_.max_queue) + 1) {}

  int run();

 private:
  Status start();
  ApiOptions api_options();
  std::vector<SettingInfo> setting_infos() const;
  // Of bodies being received, and again of complete ones that wait for a worker.
  size_t all_bodies_bytes_max() const {
    return std::max(size_t{1} << 30, 2 * config_.body_bytes_max());
  }
  Result<HttpServerOptions> http_options();
  void make_timers();
  void tick();
  void beat();
  ModelManager::Events model_events();
  void load_first();
  void show_progress(std::string_view phase, int32_t percent);
  void loaded(const ServedEngine& engine);
  void load_failed(const Error& error);
  void begin_costs(const ServedEngine& engine);
  void on_signal(int number);
  void stop(int exit_code);
  void drain();
  void wait_for_idle();
  [[noreturn]] void leave_now(int exit_code);

  const Config& config_;
  const std::map<std::string, SettingValue, std::less<>>& values_;
  SystemClock clock_;
  ServiceManager manager_{process_environment};
  Watchdog watchdog_;
  std::string host_;                          // listened at
  std::shared_ptr<const MediaPolicy> media_;  // null: no picture is fetched
  Loop loop_;
  CostAccount costs_;
  std::unique_ptr<RequestLog> log_;
  std::unique_ptr<PowerSampler> power_;
  std::unique_ptr<ModelManager> models_;
  WorkerPool workers_;
  std::unique_ptr<ApiHandler> api_;
  std::unique_ptr<PictureFetcher> pictures_;  // null: none are fetched
  std::unique_ptr<KeyWatch> key_watch_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<SignalWatcher> signals_;
  std::unique_ptr<Timer> tick_;
  std::unique_ptr<Timer> comments_;
  std::unique_ptr<Timer> beat_;  // where the service manager watches
  std::unique_ptr<Timer> deadline_;
  std::unique_ptr<Timer> idle_poll_;
  bool stopping_ = false;
  bool was_loaded_ = false;  // some model: later ones may fail without ending the server
  int exit_code_ = kExitOk;
  int64_t idle_deadline_us_ = 0;
  int64_t progress_told_us_ = 0;  // in the journal
};

ApiOptions Server::api_options() {
  ApiOptions options;
  options.limits.request.images_max = config_.images_max;
  options.limits.image_bytes_max = config_.image_bytes_max();
  options.limits.media = media_;
  options.held_bodies_bytes_max = all_bodies_bytes_max();
  options.pixel_bytes_max = std::max(options.pixel_bytes_max, available_memory_bytes() / 4);
  if (!config_.model.empty()) options.served_names = served_names(config_);
  options.loopback_only = is_loopback_address(host_);
  options.pages = web_assets();
  if (log_ != nullptr) {
    options.log_row = [this](RequestRow row) { log_->append(std::move(row)); };
    options.log_rows_dropped = [this] {
      const RequestLogStats stats = log_->stats();
      return static_cast<uint64_t>(stats.dropped);
    };
    options.find_rows = [path = config_.log_path](const RequestFilter& filter) {
      return query_requests(path, filter);
    };
  }
  options.n_connections = [this] { return http_ == nullptr ? 0 : http_->n_connections(); };
  if (log_ != nullptr) options.costs = &costs_;
  options.doctor = [&config = config_] {
    return doctor_json(examine(config, {.serving = true, .checksums = false}));
  };
  options.settings = setting_infos();
  options.keys_path = config_.keys_path;
  if (log_ != nullptr) options.log_path = config_.log_path;
  return options;
}

std::vector<SettingInfo> Server::setting_infos() const {
  std::vector<SettingInfo> infos;
  for (const Setting& setting : settings()) {
    const auto found = values_.find(setting.key);
    const SettingValue value = found == values_.end() ? SettingValue{} : found->second;
    infos.push_back({setting.key, value.value, value.origin, setting.flag, setting.environment,
                     setting.description});
  }
  return infos;
}

Result<HttpServerOptions> Server::http_options() {
  const auto inherited = inherited_socket(process_environment);
  if (!inherited) return std::unexpected(inherited.error());
  HttpServerOptions http;
  http.host = config_.host;
  http.port = static_cast<uint16_t>(config_.port);
  if (*inherited) {
    http.host = (*inherited)->host;
    http.inherited_socket = (*inherited)->descriptor;
  }
  http.limits.body_bytes_max = config_.body_bytes_max();
  http.limits.all_bodies_bytes_max = all_bodies_bytes_max();
  const size_t descriptors = raise_descriptor_limit();
  http.limits.n_connections_max = connections_max(config_, descriptors);
  if (http.limits.n_connections_max < connections_max(config_, SIZE_MAX))
    log_warning("at most {} connections at a time: the limit of open files is {}",
                http.limits.n_connections_max, descriptors);
  return http;
}

Status Server::start() {
  const auto http = http_options();
  if (!http) return std::unexpected(http.error());
  host_ = http->host;
  if (!config_.allowed_media_domains.empty()) {
    auto policy = MediaPolicy::make(config_.allowed_media_domains, config_.allow_private_media);
    if (!policy) return std::unexpected(policy.error());
    media_ = std::make_shared<const MediaPolicy>(*std::move(policy));
  }
  auto log = open_log(config_, clock_);
  if (!log) return std::unexpected(log.error());
  log_ = *std::move(log);
  api_ = std::make_unique<ApiHandler>(loop_, workers_, clock_, api_options());
  models_ = std::make_unique<ModelManager>(loop_, workers_, clock_, config_, *api_, model_events());
  api_->set_models(models_.get());
  if (media_ != nullptr) {
    PictureFetcherOptions options;
    options.policy = media_;
    options.bytes_max = static_cast<int64_t>(config_.image_bytes_max());
    options.timeout_ms = int64_t{config_.media_timeout_s} * 1000;
    pictures_ = std::make_unique<PictureFetcher>(loop_, std::move(options));
    api_->set_pictures(pictures_.get());
  }
  key_watch_ =
      std::make_unique<KeyWatch>(workers_, config_.keys_path,
                                 [this](const std::vector<ApiKey>& keys) { api_->set_keys(keys); });
  const auto n_keys = key_watch_->read_now();
  if (!n_keys) return std::unexpected(n_keys.error());
  if (*n_keys == 0 && !is_loopback_address(host_))
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--host {} can be reached from other machines, and there are no API "
                            "keys yet: make one with `heteroserve keys create NAME --admin`, or "
                            "leave out --host",
                            host_));
  auto server = HttpServer::listen(loop_, *api_, *http);
  if (!server) return std::unexpected(server.error());
  http_ = *std::move(server);
  signals_ = std::make_unique<SignalWatcher>(loop_, std::initializer_list<int>{SIGTERM, SIGINT},
                                             [this](int number) { on_signal(number); });
  make_timers();
  return {};
}

void Server::make_timers() {
  tick_ = std::make_unique<Timer>(loop_, [this] { tick(); });
  tick_->start(kTickMs, kTickMs);
  comments_ = std::make_unique<Timer>(loop_, [this] { api_->tick(); });
  comments_->start(kCommentsMs, kCommentsMs);
  if (const int64_t ping_ms = manager_.ping_interval_us() / 1000; ping_ms > 0) {
    beat_ = std::make_unique<Timer>(loop_, [this] { beat(); });
    beat_->start(ping_ms, ping_ms);
  }
  deadline_ = std::make_unique<Timer>(loop_, [this] {
    log_warning("shutdown time-out: {} requests are cancelled", api_->n_active());
    api_->cancel_all("The server is shutting down.");
  });
  idle_poll_ = std::make_unique<Timer>(loop_, [this] { wait_for_idle(); });
}

void Server::tick() {
  if (stopping_) return;
  key_watch_->look();
  const ServedState served = models_->state();
  if (served.stage == ServedState::Stage::kEmpty)
    return manager_.status(
        fmt::format("at http://{}: {}", http_->address(),
                    served.error ? served.error->message : "no model is loaded"));
  if (served.stage != ServedState::Stage::kReady) return;
  const EngineStats stats = models_->engine()->engine->stats();
  manager_.status(fmt::format(
      "serving {} at http://{}: {} running, {} waiting{}", models_->engine()->served->names.front(),
      http_->address(), stats.running, stats.waiting, stats.degraded ? ", a device is lost" : ""));
}

// A device call that hangs ends the signs of life, and with them the process.
void Server::beat() {
  const ServedState served = models_->state();
  if (served.stage == ServedState::Stage::kLoading && !stopping_)
    return watchdog_.beat_loading(served.percent, clock_.now_us());
  const ServedEngine* engine = models_->engine();
  const EngineStats stats = engine == nullptr ? EngineStats{} : engine->engine->stats();
  watchdog_.beat(stats.lanes, clock_.now_us());
}

int Server::run() {
  if (const Status started = start(); !started) {
    print_error(started.error());
    manager_.status(started.error().message);
    return started.error().kind == ErrorKind::kIo ? kExitFailure : kExitConfig;
  }
  // Before the model is there: the page and /ready tell how far the load is.
  manager_.notify("READY=1");
  load_first();
  loop_.run();
  if (workers_.n_jobs() > 0 || !models_->idle()) leave_now(exit_code_);
  http_.reset();
  if (log_ != nullptr)
    if (const Status closed = log_->close(kLogCloseMs); !closed)
      log_warning("request log: {}", closed.error().message);
  return exit_code_;
}

ModelManager::Events Server::model_events() {
  return {[this](std::string_view phase, int32_t percent) { show_progress(phase, percent); },
          [this](const ServedEngine& engine) { loaded(engine); },
          [this](const Error& error) { load_failed(error); }};
}

// A load that takes long is told now and then.
void Server::show_progress(std::string_view phase, int32_t percent) {
  manager_.status(fmt::format("{}: {} %", phase, percent));
  const int64_t now_us = clock_.now_us();
  if (percent == 0) progress_told_us_ = now_us;
  if (now_us - progress_told_us_ < kProgressLogMs * 1000) return;
  progress_told_us_ = now_us;
  log_info("{}: {} %", phase, percent);
}

// The model that the server was started with. Its name is known already; the files may be gone
// since, or the memory too small: then a restart changes nothing.
void Server::load_first() {
  if (config_.model.empty()) {
    fmt::print("listening: http://{} without a model; load one with `heteroserve load NAME`\n",
               http_->address());
    std::fflush(stdout);
    was_loaded_ = true;
    return;
  }
  log_info("listening at http://{}, loading {}", http_->address(), config_.model);
  auto target = models_->find(config_.model);
  if (!target) return load_failed(target.error());
  if (const Status begun = models_->load(*std::move(target)); !begun) load_failed(begun.error());
}

// What a request costs is only known from here on.
void Server::begin_costs(const ServedEngine& engine) {
  power_.reset();
  costs_.set_power({});
  std::vector<DeviceInfo> devices;
  double hour = 0;
  for (const DeviceRoles::Row& row : engine.rows) {
    devices.push_back(row.device);
    hour += config_.hour_price(row.device.id);
  }
  costs_.set_hour_price(hour);
  power_ =
      std::make_unique<PowerSampler>(std::move(devices), config_.price_kwh > 0, costs_, clock_);
}

void Server::load_failed(const Error& error) {
  print_error(error);
  if (!was_loaded_) stop(kExitConfig);
  manager_.status(error.message);
}

void Server::loaded(const ServedEngine& engine) {
  was_loaded_ = true;
  if (log_ != nullptr) begin_costs(engine);
  fmt::print("{}", engine.roles);
  for (const std::string& link : engine.engine->links()) fmt::print("link {}\n", link);
  fmt::print("ready: http://{} model={} dtype={} isa={} kv_blocks={} load={:.2f}s\n",
             http_->address(), engine.served->names.front(), dtype_name(config_.dtype),
             isa_name(cpu_isa()), engine.engine->config().kv_blocks, engine.load_s);
  std::fflush(stdout);
  tick();
}

void Server::on_signal(int number) {
  if (stopping_) {
    log_warning("second signal: ending now");
    leave_now(kExitFailure);
  }
  log_info("{}: {} requests under way may end within {} s", number == SIGINT ? "SIGINT" : "SIGTERM",
           api_->n_active(), config_.shutdown_timeout_s);
  stop(kExitOk);
}

void Server::stop(int exit_code) {
  exit_code_ = std::max(exit_code_, exit_code);
  if (stopping_) return;
  stopping_ = true;
  manager_.notify("STOPPING=1");
  manager_.status(fmt::format("stopping: {} requests under way", api_->n_active()));
  api_->begin_drain();
  models_->stop();
  const int64_t timeout_ms = int64_t{config_.shutdown_timeout_s} * 1000;
  deadline_->start(timeout_ms);
  http_->drain(timeout_ms + kAfterCancelMs, [this] {
    deadline_->stop();
    idle_deadline_us_ = clock_.now_us() + kIdleWaitMs * 1000;
    idle_poll_->start(0, kIdlePollMs);
  });
}

void Server::wait_for_idle() {
  const bool idle = api_->n_active() == 0 && workers_.n_jobs() == 0 && models_->idle();
  if (!idle && clock_.now_us() < idle_deadline_us_) return;
  idle_poll_->stop();
  loop_.stop();
}

// Threads may still be at work on what destructors would free, so nothing is destroyed.
void Server::leave_now(int exit_code) {
  if (log_ != nullptr) static_cast<void>(log_->close(kLogCloseMs));
  std::fflush(stdout);
  std::_Exit(exit_code);
}

}  // namespace

int serve_command(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  if (!config.model.empty()) {
    const auto model = find_model(config, config.model);
    const Status good =
        model ? check_start(config_of(config, *model)) : std::unexpected(model.error());
    if (!good) {
      print_error(good.error());
      ServiceManager(process_environment).status(good.error().message);
      return kExitConfig;
    }
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ,
         SIG_IGN);  // a file that may not grow is a failed write, not the end of the process
  set_worker_threads(std::clamp(std::thread::hardware_concurrency(), kWorkersMin, kWorkersMax));
  Server server(loaded);
  return server.run();
}

}  // namespace hs
