#include "hub/pull_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/log.h"

namespace hs {
namespace {

constexpr size_t kJobsMax = 50;
constexpr size_t kUnfinishedMax = 20;
constexpr int64_t kRateUs = 2'000'000;

}  // namespace

struct PullJobs::Job {
  ModelRef ref;
  PullJobState state;  // guarded by the jobs' mutex
  std::atomic<bool> cancelled = false;
  int64_t rate_us = 0;  // where the current measurement of speed began
  int64_t rate_bytes = 0;
};

std::string_view to_string(PullJobState::Phase phase) {
  using enum PullJobState::Phase;
  switch (phase) {
    case kQueued:
      return "queued";
    case kPlanning:
      return "planning";
    case kRunning:
      return "running";
    case kDone:
      return "done";
    case kFailed:
      return "failed";
    case kCancelled:
      return "cancelled";
  }
  return "failed";
}

PullJobs::PullJobs(ModelStore store, HubEndpoint endpoint, const Clock& clock)
    : store_(std::move(store)), endpoint_(std::move(endpoint)), clock_(clock) {
  thread_ = std::thread([this] { run(); });
}

PullJobs::~PullJobs() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    for (const auto& job : jobs_) job->cancelled = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<PullJobState> PullJobs::start(const ModelRef& ref) {
  const std::scoped_lock lock(mutex_);
  const std::string model = ref.repo() + (ref.revision.empty() ? "" : "@" + ref.revision);
  size_t n_unfinished = 0;
  for (const auto& job : jobs_) {
    if (job->state.finished()) continue;
    ++n_unfinished;
    if (job->state.model == model)
      return fail(ErrorKind::kInvalidArgument, fmt::format("{} is under way already.", model),
                  "already_queued", "model");
  }
  if (n_unfinished >= kUnfinishedMax)
    return fail(ErrorKind::kResourceExhausted, "Too many downloads are waiting.", "queue_full");
  auto job = std::make_shared<Job>();
  job->ref = ref;
  job->state.id = fmt::format("pull-{}", ++n_started_);
  job->state.model = model;
  job->state.created_ms = clock_.unix_ms();
  jobs_.push_back(job);
  for (auto old = jobs_.begin(); jobs_.size() > kJobsMax && old != jobs_.end();)
    old = (*old)->state.finished() ? jobs_.erase(old) : old + 1;
  changed_.notify_all();
  return job->state;
}

std::vector<PullJobState> PullJobs::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<PullJobState> states;
  for (const auto& job : jobs_) states.push_back(job->state);
  std::ranges::reverse(states);
  return states;
}

Result<PullJobState> PullJobs::cancel(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->state.id != id) continue;
    job->cancelled = true;
    if (job->state.phase == PullJobState::Phase::kQueued) {
      job->state.phase = PullJobState::Phase::kCancelled;
      job->state.finished_ms = clock_.unix_ms();
    }
    return job->state;
  }
  return fail(ErrorKind::kNotFound, "There is no such job.", "job_not_found");
}

void PullJobs::run() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      const auto next = [this] {
        return std::ranges::find_if(jobs_, [](const auto& candidate) {
          return candidate->state.phase == PullJobState::Phase::kQueued;
        });
      };
      changed_.wait(lock, [&] { return stopping_ || next() != jobs_.end(); });
      if (stopping_) return;
      job = *next();
      job->state.phase = PullJobState::Phase::kPlanning;
    }
    run_one(*job);
  }
}

void PullJobs::run_one(Job& job) {
  PullHooks hooks;
  hooks.cancelled = [&job] { return job.cancelled.load(); };
  hooks.progress = [this, &job](const PullProgress& progress) {
    const std::scoped_lock lock(mutex_);
    const int64_t now_us = clock_.now_us();
    if (job.rate_us == 0 || progress.checking) {
      job.rate_us = now_us;
      job.rate_bytes = progress.bytes_done;
    } else if (now_us - job.rate_us >= kRateUs) {
      job.state.bytes_per_s = std::max<int64_t>(progress.bytes_done - job.rate_bytes, 0) *
                              1'000'000 / (now_us - job.rate_us);
      job.rate_us = now_us;
      job.rate_bytes = progress.bytes_done;
    }
    job.state.progress = progress;
  };
  log_info("pull {}: begins", job.state.model);
  Status done;
  if (const auto plan = plan_pull(store_, endpoint_, job.ref, hooks.cancelled); plan) {
    {
      const std::scoped_lock lock(mutex_);
      job.state.phase = PullJobState::Phase::kRunning;
      job.state.progress.bytes_total = plan->bytes_total;
    }
    if (const auto model = run_pull(store_, endpoint_, *plan, hooks, clock_); !model)
      done = std::unexpected(model.error());
  } else {
    done = std::unexpected(plan.error());
  }
  const std::scoped_lock lock(mutex_);
  job.state.finished_ms = clock_.unix_ms();
  job.state.bytes_per_s = 0;
  if (done) {
    job.state.phase = PullJobState::Phase::kDone;
    log_info("pull {}: done", job.state.model);
    return;
  }
  const bool cancelled = done.error().kind == ErrorKind::kCancelled;
  job.state.phase = cancelled ? PullJobState::Phase::kCancelled : PullJobState::Phase::kFailed;
  job.state.error = done.error();
  log_warning("pull {}: {}", job.state.model, done.error().message);
}

}  // namespace hs
