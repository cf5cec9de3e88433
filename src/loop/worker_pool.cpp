#include "loop/worker_pool.h"

#include <fmt/format.h>
#include <uv.h>

#include <exception>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace hs {

void set_worker_threads(unsigned n_threads) {
  // libuv reads this once, when the first job of the process arrives.
  HS_CHECK_EQ(uv_os_setenv("UV_THREADPOOL_SIZE", fmt::format("{}", n_threads).c_str()), 0);
}

struct WorkerPool::Job {
  uv_work_t request{};
  JobId id = 0;
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
  JobId next_id = 1;
  bool abandoned = false;
  std::unordered_map<JobId, Job*> jobs;
};

void WorkerPool::Job::after(uv_work_t* request, int uv_status) {
  const std::unique_ptr<Job> job(static_cast<Job*>(request->data));
  job->shared->jobs.erase(job->id);
  if (job->shared->abandoned) return;
  if (uv_status == UV_ECANCELED)
    job->outcome = fail(ErrorKind::kCancelled, "the job was cancelled before it began");
  job->done(std::move(job->outcome));
}

WorkerPool::WorkerPool(Loop& loop, size_t jobs_max) : shared_(std::make_shared<Shared>()) {
  shared_->loop = &loop;
  shared_->jobs_max = jobs_max;
}

WorkerPool::~WorkerPool() {
  shared_->abandoned = true;
  for (const auto& [id, job] : shared_->jobs) uv_cancel(reinterpret_cast<uv_req_t*>(&job->request));
}

Result<WorkerPool::JobId> WorkerPool::submit(Work work, Done done) {
  if (shared_->jobs.size() >= shared_->jobs_max)
    return fail(ErrorKind::kResourceExhausted, "too many requests are being prepared",
                "queue_full");
  auto* job = new Job;
  job->id = shared_->next_id++;
  job->work = std::move(work);
  job->done = std::move(done);
  job->shared = shared_;
  job->request.data = job;
  shared_->jobs.emplace(job->id, job);
  HS_CHECK_EQ(uv_queue_work(shared_->loop->uv(), &job->request, &Job::run, &Job::after), 0);
  return job->id;
}

bool WorkerPool::cancel(JobId id) {
  const auto found = shared_->jobs.find(id);
  return found != shared_->jobs.end() &&
         uv_cancel(reinterpret_cast<uv_req_t*>(&found->second->request)) == 0;
}

size_t WorkerPool::n_jobs() const {
  return shared_->jobs.size();
}

}  // namespace hs
