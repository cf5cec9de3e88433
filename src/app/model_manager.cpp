#include "app/model_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/environment.h"
#include "app/model_source.h"
#include "base/log.h"

namespace hs {
namespace {

constexpr int64_t kProgressMs = 100;
constexpr int64_t kDrainPollMs = 10;

Error changing() {
  return {ErrorKind::kUnavailable, "Another model is being loaded or unloaded; try again then.",
          "model_changing", ""};
}

}  // namespace

// What a worker does, and what came of it.
struct ModelManager::Change {
  std::unique_ptr<ServedEngine> old;  // to be freed first
  std::shared_ptr<FileLock> old_hold;
  std::optional<LoadTarget> target;
  Config config;
  std::atomic<int32_t> percent = 0;
  Result<std::unique_ptr<ServedEngine>> result = nullptr;
};

ModelManager::ModelManager(Loop& loop, WorkerPool& workers, const Clock& clock,
                           const Config& config, ApiHandler& api, Events events)
    : workers_(workers),
      clock_(clock),
      config_(config),
      api_(api),
      events_(std::move(events)),
      store_(config.models_dir),
      endpoint_(hub_endpoint(process_environment)),
      jobs_(store_, endpoint_, clock),
      wakeup_(loop,
              [this] {
                if (engine_ != nullptr) engine_->engine->poll();
              }),
      progress_(loop,
                [this] {
                  if (change_ != nullptr) show_progress(*change_);
                }),
      drain_poll_(loop, [this] { look_whether_drained(); }),
      drain_deadline_(loop, [this] {
        log_warning("{} requests of the old model are cancelled", api_.n_active());
        api_.cancel_all("The model that answered this request is being unloaded.");
      }) {
  api_.set_no_model({});
}

ModelManager::~ModelManager() = default;

void ModelManager::stop() {
  stopping_ = true;
  drain_poll_.stop();
  drain_deadline_.stop();
}

Result<LoadTarget> ModelManager::find(const std::string& name) const {
  // A client names models of the store, and what the server was started with; no other folder.
  if (name == config_.model) return find_model(config_, name);
  if (const auto ref = parse_model_ref(name); !ref && name.find('/') != name.npos)
    return std::unexpected(ref.error());
  const auto model = store_.find(name);
  if (!model) return std::unexpected(model.error());
  auto hold = store_.hold(*model);
  if (!hold) return std::unexpected(hold.error());
  return LoadTarget{model->manifest.repo,
                    model->id(),
                    model->path.string(),
                    {model->manifest.repo},
                    std::make_shared<FileLock>(*std::move(hold))};
}

MemoryFit ModelManager::memory_fit(const PullPlan& plan) const {
  return fit_memory(config_, plan);
}

Status ModelManager::may_change() const {
  if (stopping_)
    return fail(ErrorKind::kUnavailable, "The server is shutting down.", "shutting_down");
  const bool busy =
      state_.stage == ServedState::Stage::kDraining || state_.stage == ServedState::Stage::kLoading;
  if (busy) return std::unexpected(changing());
  return {};
}

Status ModelManager::load(LoadTarget target) {
  if (Status may = may_change(); !may) return may;
  const bool is_there =
      engine_ != nullptr && state_.model == target.model && state_.id == target.id;
  if (is_there) return {};
  next_ = std::move(target);
  if (engine_ != nullptr)
    drain();
  else
    start_change();
  return {};
}

Status ModelManager::unload() {
  if (Status may = may_change(); !may) return may;
  if (engine_ == nullptr)
    return fail(ErrorKind::kInvalidArgument, "No model is loaded.", "no_model_loaded");
  next_.reset();
  drain();
  return {};
}

// From here on nobody new gets the model; who has it keeps it.
void ModelManager::drain() {
  log_info("{}: {} requests under way may end within {} s", state_.model, api_.n_active(),
           config_.shutdown_timeout_s);
  state_.stage = ServedState::Stage::kDraining;
  state_.phase = "requests under way";
  state_.percent = 0;
  released_ = engine_->served;
  engine_->served.reset();
  api_.release_model(state_.phase);
  drain_deadline_.start(int64_t{config_.shutdown_timeout_s} * 1000);
  drain_poll_.start(0, kDrainPollMs);
}

void ModelManager::look_whether_drained() {
  if (!released_.expired() || !engine_->engine->idle()) return;
  drain_poll_.stop();
  drain_deadline_.stop();
  api_.forget_engine();
  start_change();
}

void ModelManager::start_change() {
  auto change = std::make_shared<Change>();
  change->old = std::move(engine_);
  change->old_hold = std::move(hold_);
  change->target = std::move(next_);
  next_.reset();
  state_ = {};
  if (change->target) {
    change->config = config_of(config_, *change->target);
    state_.stage = ServedState::Stage::kLoading;
    state_.model = change->target->model;
    state_.id = change->target->id;
    state_.phase = "reading weights";
    api_.set_loading(state_.phase, 0);
    if (events_.progress) events_.progress(state_.phase, 0);
    progress_.start(kProgressMs, kProgressMs);
  } else {
    state_.stage = ServedState::Stage::kDraining;
    state_.phase = "giving memory back";
    api_.set_loading(state_.phase, 0);
  }
  change_ = change;
  const auto submitted = workers_.submit(
      [change, this] {
        change->old.reset();
        change->old_hold.reset();
        if (!change->target) return;
        change->result = load_engine(
            change->config, clock_, [this] { wakeup_.send(); },
            [weak = change.get()](size_t done, size_t total) {
              weak->percent.store(static_cast<int32_t>(done * 100 / std::max<size_t>(total, 1)),
                                  std::memory_order_relaxed);
            });
      },
      [change, this](const Status& ran) { finish(change, ran); });
  if (!submitted) finish(change, std::unexpected(submitted.error()));
}

void ModelManager::show_progress(const Change& change) {
  state_.percent = change.percent.load(std::memory_order_relaxed);
  api_.set_loading(state_.phase, state_.percent);
  if (events_.progress) events_.progress(state_.phase, state_.percent);
}

void ModelManager::finish(const std::shared_ptr<Change>& change, const Status& ran) {
  progress_.stop();
  change_.reset();
  if (!change->target) {
    state_ = {};
    api_.set_no_model({});
    log_info("no model is loaded");
    return;
  }
  const bool good = ran && change->result && *change->result != nullptr;
  if (!good) {
    const Error why = !ran ? ran.error() : change->result.error();
    state_.stage = ServedState::Stage::kEmpty;
    state_.phase.clear();
    state_.percent = 0;
    state_.error = why;
    api_.set_no_model(why);
    if (events_.failed) events_.failed(why);
    return;
  }
  engine_ = *std::move(change->result);
  hold_ = std::move(change->target->hold);
  state_.stage = ServedState::Stage::kReady;
  state_.phase = "serving";
  state_.percent = 100;
  if (stopping_) return;
  api_.set_model(engine_->served, *engine_->engine, engine_->load_s);
  if (events_.loaded) events_.loaded(*engine_);
}

}  // namespace hs
