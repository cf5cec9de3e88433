// Of ApiHandler: answers that need the body and a worker, but no engine.
#include <atomic>
#include <memory>
#include <utility>

#include "api/api_handler.h"
#include "api/errors.h"
#include "api/request_checks.h"

namespace hs {

// Work at a body whose answer needs no engine. Shared with the worker, which writes remote,
// response and body and reads the rest.
struct ApiHandler::BodyJob {
  BodyJob(Call with_call, std::shared_ptr<HeldBodies> bodies)
      : call(std::move(with_call)), body(std::move(call.request.body), std::move(bodies)) {}

  Call call;  // loop thread
  HeldBody body;
  JobShare share;
  HttpResponse (*answer)(const PreparationInput&) = nullptr;
  std::shared_ptr<const ServedModel> model;
  PreparationLimits limits;
  RemotePictures remote;
  std::atomic<bool> cancelled = false;
  HttpResponse response;
  WorkerPool::JobId id = 0;  // loop thread
};

void ApiHandler::run_job(Call call, HttpResponse (*answer)(const PreparationInput&)) {
  const JobShare share = preparation_share(call.ticket, call.request.body.size());
  auto job = std::make_shared<BodyJob>(std::move(call), core_.bodies);
  job->share = share;
  job->answer = answer;
  job->model = core_.model;
  job->limits = core_.limits;
  job->call.writer->on_client_gone([weak = std::weak_ptr(job), &workers = core_.workers] {
    const auto left = weak.lock();
    if (left == nullptr) return;
    left->cancelled.store(true, std::memory_order_relaxed);
    workers.cancel(left->id);
  });
  submit_job(job);
}

void ApiHandler::submit_job(const std::shared_ptr<BodyJob>& job) {
  const Clock& clock = core_.clock;
  const auto submitted = core_.workers.submit(
      [job, &clock] {
        job->response = job->answer(
            {job->body, 0, *job->model, job->limits, clock, job->cancelled, nullptr, &job->remote});
      },
      [this, job](const Status& ran) {
        if (ran && job->remote.needs_fetch() && !job->cancelled) return fetch_for(job);
        reply(job->call, ran ? std::move(job->response) : error_response(ran.error()));
      },
      job->share);
  if (!submitted) return reply(job->call, error_response(queue_full()));
  job->id = *submitted;
}

void ApiHandler::fetch_for(const std::shared_ptr<BodyJob>& job) {
  const Status begun = core_.fetch_pictures(job, job->remote, job->body, job->cancelled,
                                            [this, job](const Status& fetched, int64_t) {
                                              if (fetched) return submit_job(job);
                                              reply(job->call, error_response(fetched.error()));
                                            });
  if (!begun) reply(job->call, error_response(begun.error()));
}

}  // namespace hs
