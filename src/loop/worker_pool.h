// Work that would block the loop (picture decode, long tokenization, file reads), done on worker
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "loop/loop.h"
#include "loop/timer.h"

namespace hs {

// How many threads serve all pools of the process. Must be called before the first submit(); the
// default is 4.
void set_worker_threads(unsigned n_threads);

// On whose behalf a job is done, and what it is expected to cost, in any one unit of the pool's
// users: tenants take turns (base/fair_turns.h).
struct JobShare {
  uint64_t tenant = UINT64_MAX;  // the process's own
  uint64_t cost = 1;
};

// Loop thread only. Jobs of one tenant start in the order submitted. No more are handed to the
// threads than these can begin, so that the next one may be another tenant's.
class WorkerPool {
 public:
  using Work = std::move_only_function<void()>;
  using Done = std::move_only_function<void(Status)>;
  using JobId = uint64_t;

  // At most jobs_max jobs wait or run at a time; one more is refused, unless it is the only one of
  // its tenant.
  WorkerPool(Loop& loop, size_t jobs_max);
  // Jobs that wait are dropped; jobs that run finish on their own. No `done` is called after this.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // `work` runs on a worker thread and touches only what it owns; then `done` runs on the loop
  // thread, exactly once: with success, with kCancelled if cancel() came before a thread took the
  // job (then `work` never ran), or with kInternal if `work` threw. Both are destroyed on the loop
  // thread. kResourceExhausted: full; neither will be called.
  [[nodiscard]] Result<JobId> submit(Work work, Done done, JobShare share = {});

  // A job that has not begun is dropped and its `done` gets kCancelled; false if it runs, has run
  // or is unknown.
  bool cancel(JobId id);

  size_t n_jobs() const;

 private:
  struct Job;
  struct Shared;
  std::shared_ptr<Shared> shared_;  // outlives the pool while jobs run
  Timer teller_;                    // tells cancelled jobs so
};

}  // namespace hs
