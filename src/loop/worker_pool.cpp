#include "loop/worker_pool.h"

#include <fmt/format.h>
#include <uv.h>

#include <charconv>
#include <exception>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fair_turns.h"

namespace hs {

namespace {

constexpr const char* kThreadsVariable = "UV_THREADPOOL_SIZE";

size_t worker_threads() {
  constexpr size_t kDefault = 4;  // libuv's
  char text[16];
  size_t size = sizeof text;
  size_t n = 0;
  if (uv_os_getenv(kThreadsVariable, text, &size) != 0) return kDefault;
  return std::from_chars(text, text + size, n).ec == std::errc() && n > 0 ? n : kDefault;
}

}  // namespace

void set_worker_threads(unsigned n_threads) {
  // libuv reads this once, when the first job of the process arrives.
  HS_CHECK_EQ(uv_os_setenv(kThreadsVariable, fmt::format("{}", n_threads).c_str()), 0);
}

struct WorkerPool::Job {
  uv_work_t request{};
  JobId id = 0;
  uint64_t turn = 0;
  uint64_t cost = 0;
  Work work;
  Done done;
  std::shared_ptr<Shared> shared;
  Status outcome;  // written by the worker, read by the loop after it

  static void run(uv_work_t* request) {
    auto* job = static_cast<Job*>(request->data);
    try {
      job->work();
    } catch (const std::exception& error) {
      job->outcome =
          fail(ErrorKind::kInternal, fmt::format("a worker job threw: {}", error.what()));
    } catch (...) {
      job->outcome = fail(ErrorKind::kInternal, "a worker job threw");
    }
  }

  static void after(uv_work_t* request, int uv_status);
};

struct WorkerPool::Shared {
  Loop* loop = nullptr;
  size_t jobs_max = 0;
  size_t n_threads = 0;
  JobId next_id = 1;
  bool abandoned = false;
  std::unordered_map<JobId, Job*> jobs;  // all
  FairTurns turns;
  std::map<uint64_t, std::unique_ptr<Job>> waiting;  // by turn
  size_t n_handed_out = 0;                           // to the threads
  std::vector<std::unique_ptr<Job>> cancelled;       // while waiting; to be told

  void hand_out() {
    while (n_handed_out < n_threads && !waiting.empty()) {
      Job* job = waiting.begin()->second.release();
      waiting.erase(waiting.begin());
      turns.begin(job->turn);
      ++n_handed_out;
      HS_CHECK_EQ(uv_queue_work(loop->uv(), &job->request, &Job::run, &Job::after), 0);
    }
  }

  void forget(const Job& job) {
    jobs.erase(job.id);
    turns.end(job.turn, job.cost);
  }

  void tell_cancelled() {
    for (const std::unique_ptr<Job>& job : std::exchange(cancelled, {})) {
      if (abandoned) return;
      forget(*job);
      job->done(fail(ErrorKind::kCancelled, "the job was cancelled before it began"));
    }
  }
};

void WorkerPool::Job::after(uv_work_t* request, int uv_status) {
  const std::unique_ptr<Job> job(static_cast<Job*>(request->data));
  Shared& shared = *job->shared;
  --shared.n_handed_out;
  shared.forget(*job);
  if (shared.abandoned) return;
  shared.hand_out();
  if (uv_status == UV_ECANCELED)
    job->outcome = fail(ErrorKind::kCancelled, "the job was cancelled before it began");
  job->done(std::move(job->outcome));
}

WorkerPool::WorkerPool(Loop& loop, size_t jobs_max)
    : shared_(std::make_shared<Shared>()),
      teller_(loop, [shared = shared_] { shared->tell_cancelled(); }) {
  shared_->loop = &loop;
  shared_->jobs_max = jobs_max;
  shared_->n_threads = worker_threads();
}

WorkerPool::~WorkerPool() {
  shared_->abandoned = true;
  for (const auto& [turn, job] : shared_->waiting) shared_->forget(*job);
  for (const auto& job : shared_->cancelled) shared_->forget(*job);
  // What they hold may hold the pool's other users.
  std::exchange(shared_->waiting, {}).clear();
  std::exchange(shared_->cancelled, {}).clear();
  for (const auto& [id, job] : shared_->jobs) uv_cancel(reinterpret_cast<uv_req_t*>(&job->request));
}

Result<WorkerPool::JobId> WorkerPool::submit(Work work, Done done, JobShare share) {
  if (shared_->jobs.size() >= shared_->jobs_max && shared_->turns.n_here(share.tenant) > 0)
    return fail(ErrorKind::kResourceExhausted, "too many requests are being prepared",
                "queue_full");
  auto job = std::make_unique<Job>();
  const JobId id = shared_->next_id++;
  job->id = id;
  job->cost = share.cost;
  job->turn = shared_->turns.arrive(share.tenant, share.cost);
  job->work = std::move(work);
  job->done = std::move(done);
  job->shared = shared_;
  job->request.data = job.get();
  shared_->jobs.emplace(id, job.get());
  shared_->waiting.emplace(job->turn, std::move(job));
  shared_->hand_out();
  return id;
}

bool WorkerPool::cancel(JobId id) {
  const auto found = shared_->jobs.find(id);
  if (found == shared_->jobs.end()) return false;
  Job* job = found->second;
  const auto waits = shared_->waiting.find(job->turn);
  if (waits == shared_->waiting.end() || waits->second.get() != job)
    return uv_cancel(reinterpret_cast<uv_req_t*>(&job->request)) == 0;
  shared_->cancelled.push_back(std::move(waits->second));
  shared_->waiting.erase(waits);
  if (!teller_.active()) teller_.start(0);
  return true;
}

size_t WorkerPool::n_jobs() const {
  return shared_->jobs.size();
}

}  // namespace hs
