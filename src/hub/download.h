// One file of a model: fetched piece by piece into NAME.part, resumed, checked, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/status.h"
#include "hub/hugging_face.h"
#include "hub/pull.h"

namespace hs {

struct DownloadTask {
  const HubEndpoint& endpoint;
  const RemoteModel& model;
  const RemoteFile& file;
  std::filesystem::path folder;
  const PullHooks& hooks;
  // Bytes of this file that are there; `checking` while they are read again.
  std::function<void(int64_t bytes, bool checking)> progress;
};

// The file's SHA-256. Blocks; errors as of run_pull().
Result<std::string> download(const DownloadTask& task);

}  // namespace hs
