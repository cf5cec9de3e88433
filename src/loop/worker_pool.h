// Work that would block the loop (picture decode, long tokenization, file reads), done on worker
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "loop/loop.h"

namespace hs {

// How many threads serve all pools of the process. Must be called before the first submit(); the
// default is 4.
void set_worker_threads(unsigned n_threads);

// Loop thread only. Jobs start in the order submitted.
class WorkerPool {
 public:
  using Work = std::move_only_function<void()>;
  using Done = std::move_only_function<void(Status)>;
  using JobId = uint64_t;

  // At most jobs_max jobs wait or run at a time; one more is refused.
  WorkerPool(Loop& loop, size_t jobs_max);
  // Jobs that wait are dropped; jobs that run finish on their own. No `done` is called after this.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // `work` runs on a worker thread and touches only what it owns; then `done` runs on the loop
  // thread, exactly once: with success, with kCancelled if cancel() came before a thread took the
  // job (then `work` never ran), or with kInternal if `work` threw. Both are destroyed on the loop
  // thread. kResourceExhausted: full; neither will be called.
  [[nodiscard]] Result<JobId> submit(Work work, Done done);

  // A job that has not begun is dropped and its `done` gets kCancelled; false if it runs, has run
  // or is unknown.
  bool cancel(JobId id);

  size_t n_jobs() const;

 private:
  struct Job;
  struct Shared;
  std::shared_ptr<Shared> shared_;  // outlives the pool while jobs run
};

}  // namespace hs
