// Pictures that requests name by http or https URL, fetched by threads of their own: a slow host
// keeps neither the loop nor the workers waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "fetch/media_policy.h"
#include "loop/async_wakeup.h"
#include "loop/loop.h"

namespace hs {

struct PictureFetcherOptions {
  std::shared_ptr<const MediaPolicy> policy;
  int64_t bytes_max = 20 << 20;           // of one picture
  int64_t timeout_ms = 10'000;            // of one picture, redirects included
  std::vector<std::string> resolve = {};  // as FetchRequest's
  size_t n_threads = 16;                  // pictures that are fetched at a time
  size_t of_a_request_max = 4;            // of them those of one request
  size_t pictures_waiting_max = 256;      // fetched and waiting together; more are refused
};

// Loop thread only. Redirects are followed (five at most), each judged by the policy like the first
// URL. No proxy is used: the policy must see the address that is connected to.
class PictureFetcher {
 public:
  PictureFetcher(Loop& loop, PictureFetcherOptions options);
  // Ends what is under way, within a second or so; `done` of that is never called.
  ~PictureFetcher();
  PictureFetcher(const PictureFetcher&) = delete;
  PictureFetcher& operator=(const PictureFetcher&) = delete;

  using Fetched = std::vector<Result<std::string>>;  // bytes, in the order of the URLs
  // `done` is called once, on the loop thread, when all are there, or soon after one failed or
  // `cancelled` (any thread, often) said true: then the others are given up. Errors of a picture,
  // all of them meant for the client (but kCancelled "cancelled"):
  //   kInvalidArgument "image_url_refused"     by the policy, or a redirect that leads nowhere good
  //   kInvalidArgument "image_download_failed" its server cannot be reached, is slow, answers with
  //                                            another status than 200, or breaks off
  //   kTooLarge        "image_too_large"
  // kResourceExhausted "queue_full": too many wait; `done` is never called. REQUIRES: urls.
  Status fetch(std::vector<std::string> urls, std::function<bool()> cancelled,
               std::move_only_function<void(Fetched)> done);

 private:
  struct Batch;
  void run();
  void fetch_one(Batch& batch, size_t index);
  void finish(std::shared_ptr<Batch> batch);
  void deliver();

  const PictureFetcherOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> queue_;  // an entry a thread that may work at it; guarded
  std::deque<std::shared_ptr<Batch>> done_;   // for deliver(); guarded
  size_t n_pictures_ = 0;                     // not delivered; loop thread
  std::atomic<bool> stopping_ = false;
  AsyncWakeup wakeup_;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace hs
