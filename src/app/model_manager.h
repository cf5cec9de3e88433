// The model that is served: loads it, swaps it for another without cutting off a request, unloads
// it; and the downloads beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/api_handler.h"
#include "api/model_admin.h"
#include "app/config.h"
#include "app/served_engine.h"
#include "base/clock.h"
#include "loop/async_wakeup.h"
#include "loop/loop.h"
#include "loop/timer.h"
#include "loop/worker_pool.h"

namespace hs {

// Loop thread, but for what ModelAdmin says of any thread. One change at a time:
//   empty -> loading -> ready
//   ready -> draining -> loading -> ready     another model
//   ready -> draining -> empty                unload
// While draining new requests get 503 and those under way end normally; after
// --shutdown-timeout-s they are cancelled. The old model's memory is given back before the new one
// is read. A load that fails leaves the server alive, without a model.
class ModelManager final : public ModelAdmin {
 public:
  struct Events {
    std::function<void(std::string_view phase, int32_t percent)> progress;  // about 10 a second
    std::function<void(const ServedEngine& engine)> loaded;
    std::function<void(const Error& error)> failed;
  };

  // Everything given must outlive the manager. Its jobs run on `workers`, which must be destroyed
  // before it.
  ModelManager(Loop& loop, WorkerPool& workers, const Clock& clock, const Config& config,
               ApiHandler& api, Events events);
  ~ModelManager() override;

  // No further change; waits for nothing.
  void stop();
  // No work of the engine is under way.
  bool idle() const { return engine_ == nullptr || engine_->engine->idle(); }
  const ServedEngine* engine() const { return engine_.get(); }

  const ModelStore& store() const override { return store_; }
  const HubEndpoint& endpoint() const override { return endpoint_; }
  PullJobs& jobs() override { return jobs_; }
  Result<LoadTarget> find(const std::string& name) const override;
  MemoryFit memory_fit(const PullPlan& plan) const override;
  Status load(LoadTarget target) override;
  Status unload() override;
  ServedState state() const override { return state_; }

 private:
  struct Change;

  Status may_change() const;
  void drain();
  void look_whether_drained();
  void start_change();
  void show_progress(const Change& change);
  void finish(const std::shared_ptr<Change>& change, const Status& ran);

  WorkerPool& workers_;
  const Clock& clock_;
  const Config& config_;
  ApiHandler& api_;
  const Events events_;
  const ModelStore store_;
  const HubEndpoint endpoint_;
  PullJobs jobs_;
  AsyncWakeup wakeup_;
  ServedState state_;
  std::optional<LoadTarget> next_;  // to be loaded when the old one is gone
  std::shared_ptr<FileLock> hold_;  // of what is loaded
  std::unique_ptr<ServedEngine> engine_;
  std::weak_ptr<const ServedModel> released_;  // while draining: expires with the last request
  Timer progress_;
  Timer drain_poll_;
  Timer drain_deadline_;
  std::shared_ptr<Change> change_;  // while a worker is at it
  bool stopping_ = false;
};

}  // namespace hs
