#include "app/key_watch.h"

#include <optional>
#include <utility>

#include "base/log.h"

namespace hs {

struct KeyWatch::Job {
  KeyFileStamp stamp;
  std::optional<Result<std::vector<ApiKey>>> keys;  // absent: the file is as it was
};

KeyWatch::KeyWatch(WorkerPool& workers, std::string path, Changed changed)
    : workers_(workers), path_(std::move(path)), changed_(std::move(changed)) {}

Result<size_t> KeyWatch::read_now() {
  // The stamp first: what is written between the two is found at the next look.
  stamp_ = stamp_of_keys(path_);
  const auto keys = read_keys(path_);
  if (!keys) return std::unexpected(keys.error());
  changed_(*keys);
  return keys->size();
}

void KeyWatch::look() {
  if (looking_) return;
  auto job = std::make_shared<Job>();
  const auto submitted = workers_.submit(
      [job, path = path_, known = stamp_] {
        job->stamp = stamp_of_keys(path);
        if (job->stamp != known) job->keys = read_keys(path);
      },
      [this, job](const Status& ran) {
        looking_ = false;
        if (!ran || !job->keys) return;
        stamp_ = job->stamp;
        if (!*job->keys) return log_error("{}", job->keys->error().message);
        changed_(**job->keys);
      });
  looking_ = submitted.has_value();
}

}  // namespace hs
