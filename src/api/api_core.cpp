#include "api/api_core.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/picture_fetcher.h"
#include "base/check.h"

namespace hs {
namespace {

std::string_view outcome_of(const Result<std::string>& picture) {
  if (picture) return "ok";
  const std::string& code = picture.error().code;
  if (code == "cancelled") return "cancelled";
  if (code == "image_too_large") return "too_large";
  return code == "image_url_refused" ? "refused" : "failed";
}

// The first fault that is one; pictures that were given up because of it are none.
Status take(PictureFetcher::Fetched pictures, RemotePictures& remote) {
  Status all;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (pictures[i]) {
      remote.bytes.insert_or_assign(remote.wanted[i].url, *std::move(pictures[i]));
      continue;
    }
    if (!all && all.error().code != "cancelled") continue;
    Error error = pictures[i].error();
    error.param = remote.wanted[i].param;
    all = std::unexpected(std::move(error));
  }
  remote.fetched = true;
  return all;
}

}  // namespace

std::string ApiCore::new_id() {
  return fmt::format("{:016x}{:08x}", random(), static_cast<uint32_t>(random()));
}

Status ApiCore::fetch_pictures(const std::shared_ptr<void>& job, RemotePictures& remote,
                               HeldBody& body, const std::atomic<bool>& cancelled,
                               std::move_only_function<void(Status, int64_t bytes)> done) {
  HS_CHECK(pictures != nullptr && remote.needs_fetch());
  std::vector<std::string> urls;
  for (const RemotePictures::Wanted& wanted : remote.wanted) urls.push_back(wanted.url);
  const int64_t begin_us = clock.now_us();
  return pictures->fetch(
      std::move(urls), [job, &cancelled] { return cancelled.load(std::memory_order_relaxed); },
      [this, job, begin_us, &remote, &body,
       done = std::move(done)](PictureFetcher::Fetched fetched) mutable {
        int64_t bytes = 0;
        for (const Result<std::string>& picture : fetched) {
          const auto size = picture ? static_cast<int64_t>(picture->size()) : 0;
          metrics.on_fetched_image(outcome_of(picture), size);
          bytes += size;
        }
        metrics.on_fetch(static_cast<double>(clock.now_us() - begin_us) * 1e-6);
        Status all = take(std::move(fetched), remote);
        if (all && !body.grow(static_cast<size_t>(bytes))) all = std::unexpected(queue_full());
        done(std::move(all), bytes);
      });
}

}  // namespace hs
