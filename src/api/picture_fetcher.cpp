#include "api/picture_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "fetch/fetch.h"

namespace hs {
namespace {

std::unexpected<Error> download_failed(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message), "image_download_failed");
}

// The client learns what kind of fault it was, and of its own URL no more than the host.
std::unexpected<Error> told_to_client(const Error& error, const std::string& host,
                                      int64_t timeout_ms) {
  if (error.code == "cancelled" || error.code == "image_url_refused" ||
      error.kind == ErrorKind::kResourceExhausted)
    return std::unexpected(error);
  if (error.code == "invalid_url" || error.code == "redirect_refused")
    return fail(ErrorKind::kInvalidArgument, error.message, "image_url_refused");
  if (error.code == "too_large")
    return fail(ErrorKind::kTooLarge, fmt::format("The picture from {} is too large.", host),
                "image_too_large");
  if (error.code == "timeout")
    return download_failed(fmt::format("The picture from {} did not come within {:.3g} s.", host,
                                       static_cast<double>(timeout_ms) / 1000.0));
  if (error.code == "cut")
    return download_failed(fmt::format("The picture from {} broke off.", host));
  if (error.code == "tls")
    return download_failed(fmt::format("{} has no certificate that can be trusted.", host));
  return download_failed(fmt::format("{} cannot be reached.", host));
}

}  // namespace

// `urls`, `cancelled` and `done` are set before any thread sees it; each result is written by one.
struct PictureFetcher::Batch {
  std::vector<std::string> urls;
  std::function<bool()> cancelled;
  std::move_only_function<void(Fetched)> done;  // loop thread
  Fetched results;
  std::atomic<size_t> next = 0;
  std::atomic<size_t> n_left = 0;
  std::atomic<bool> failed = false;  // one of them: the others are of no use
};

PictureFetcher::PictureFetcher(Loop& loop, PictureFetcherOptions options)
    : options_(std::move(options)), wakeup_(loop, [this] { deliver(); }, false) {
  HS_CHECK(options_.policy != nullptr);
  for (size_t i = 0; i < options_.n_threads; ++i) threads_.emplace_back([this] { run(); });
}

PictureFetcher::~PictureFetcher() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status PictureFetcher::fetch(std::vector<std::string> urls, std::function<bool()> cancelled,
                             std::move_only_function<void(Fetched)> done) {
  HS_CHECK(!urls.empty());
  // One request alone always fits: its pictures are limited elsewhere.
  if (n_pictures_ > 0 && n_pictures_ + urls.size() > options_.pictures_waiting_max)
    return fail(ErrorKind::kResourceExhausted,
                "Too many pictures are being fetched; try again later.", "queue_full");
  auto batch = std::make_shared<Batch>();
  batch->results.assign(urls.size(),
                        std::unexpected(Error{ErrorKind::kCancelled, "", "cancelled", ""}));
  batch->n_left = urls.size();
  n_pictures_ += urls.size();
  batch->urls = std::move(urls);
  batch->cancelled = std::move(cancelled);
  batch->done = std::move(done);
  const size_t n_hands = std::min(batch->urls.size(), options_.of_a_request_max);
  {
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < n_hands; ++i) queue_.push_back(batch);
  }
  changed_.notify_all();
  return {};
}

void PictureFetcher::run() {
  while (true) {
    std::shared_ptr<Batch> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
    }
    for (size_t at = batch->next++; at < batch->urls.size(); at = batch->next++) {
      fetch_one(*batch, at);
      if (--batch->n_left == 0) finish(batch);
    }
  }
}

void PictureFetcher::fetch_one(Batch& batch, size_t index) {
  const auto given_up = [this, &batch] { return stopping_ || batch.failed || batch.cancelled(); };
  if (given_up()) return;
  FetchRequest request;
  request.url = batch.urls[index];
  request.headers = {{"Accept", "image/*"}};
  request.limits.bytes_max = options_.bytes_max;
  request.limits.connect_ms = options_.timeout_ms;
  request.limits.total_ms = options_.timeout_ms;
  request.policy.allow_url = [this](const Url& url, int) {
    return options_.policy->allow_url(url);
  };
  request.policy.allow_address = [this](const Url& url, const ResolvedAddress& address) {
    return options_.policy->allow_address(url, address);
  };
  request.resolve = options_.resolve;
  request.use_proxy = false;
  request.cancelled = given_up;
  const auto url = parse_url(request.url);
  auto answer = hs::fetch(request);
  Result<std::string>& result = batch.results[index];
  if (!answer)
    result = told_to_client(answer.error(), url ? url->host : "", options_.timeout_ms);
  else if (answer->head.status != 200)
    result = download_failed(fmt::format("{} answers with status {} instead of a picture.",
                                         answer->head.url.host, answer->head.status));
  else
    result = std::move(answer->body);
  if (!result) batch.failed = true;
}

void PictureFetcher::finish(std::shared_ptr<Batch> batch) {
  const std::scoped_lock lock(mutex_);
  done_.push_back(std::move(batch));
  wakeup_.send();
}

void PictureFetcher::deliver() {
  std::deque<std::shared_ptr<Batch>> done;
  {
    const std::scoped_lock lock(mutex_);
    done.swap(done_);
  }
  for (const std::shared_ptr<Batch>& batch : done) {
    n_pictures_ -= batch->urls.size();
    // What it holds belongs to the loop thread, and a fetching thread may have the batch still.
    batch->cancelled = {};
    auto call = std::exchange(batch->done, {});
    call(std::move(batch->results));
  }
}

}  // namespace hs
