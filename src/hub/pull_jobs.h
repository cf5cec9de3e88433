// Pulls that run in the background, one after the other, whoever asked for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "hub/pull.h"

namespace hs {

struct PullJobState {
  enum class Phase { kQueued, kPlanning, kRunning, kDone, kFailed, kCancelled };

  std::string id;
  std::string model;  // "org/name@revision", as it was asked for
  Phase phase = Phase::kQueued;
  PullProgress progress;
  int64_t bytes_per_s = 0;  // of the last seconds
  std::optional<Error> error;
  int64_t created_ms = 0;   // unix time
  int64_t finished_ms = 0;  // 0 = not yet

  bool finished() const { return phase >= Phase::kDone; }
};
std::string_view to_string(PullJobState::Phase phase);

// Any thread. Ended jobs are remembered until there are more than 50.
class PullJobs {
 public:
  // `clock` must outlive the jobs.
  PullJobs(ModelStore store, HubEndpoint endpoint, const Clock& clock);
  // Ends what is running; takes a second or two.
  ~PullJobs();
  PullJobs(const PullJobs&) = delete;
  PullJobs& operator=(const PullJobs&) = delete;

  // kResourceExhausted "queue_full"; kInvalidArgument "already_queued": the same model is under
  // way.
  Result<PullJobState> start(const ModelRef& ref);
  std::vector<PullJobState> list() const;  // the newest first
  // What was fetched stays for the next pull. kNotFound "job_not_found".
  Result<PullJobState> cancel(const std::string& id);

 private:
  struct Job;
  void run();
  void run_one(Job& job);

  const ModelStore store_;
  const HubEndpoint endpoint_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  // oldest first; guarded
  int64_t n_started_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hs
