// Follows the file of API keys, so that keys made and revoked by the command count without a
// restart.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "loop/worker_pool.h"
#include "store/api_keys.h"

namespace hs {

// Loop thread only. `workers` must outlive it.
class KeyWatch {
 public:
  using Changed = std::function<void(const std::vector<ApiKey>&)>;
  KeyWatch(WorkerPool& workers, std::string path, Changed changed);

  // At start, when nothing is served yet: reads on this thread. The number of keys, revoked ones
  // too.
  Result<size_t> read_now();
  // About once a second: a worker looks whether the file is another, and reads it. What cannot be
  // read leaves the keys as they are, and is told in the journal.
  void look();

 private:
  struct Job;
  WorkerPool& workers_;
  const std::string path_;
  const Changed changed_;
  KeyFileStamp stamp_;
  bool looking_ = false;
};

}  // namespace hs
