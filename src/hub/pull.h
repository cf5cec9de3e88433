// Fetching a model into the store: a plan first, then file by file, resumable, each checked against
// the hash that the repository tells.
//
// Blocking; any thread but the loop's. An interrupted pull leaves what it has below the store's
// .partial folder, and the next one goes on there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "hub/hugging_face.h"
#include "hub/model_store.h"

namespace hs {

struct PullFile {
  RemoteFile remote;
  int64_t bytes_there = 0;  // fetched before, not checked yet
};

struct PullPlan {
  RemoteModel model;
  std::string architecture;
  std::vector<PullFile> files;
  int64_t bytes_total = 0;
  int64_t bytes_missing = 0;
  int64_t weight_bytes = 0;  // of bytes_total, safetensors
  DiskSpace disk;
  bool installed = false;  // this commit is in the store: nothing to do

  bool fits_disk() const { return disk.free_bytes - bytes_missing >= disk.reserve_bytes; }
};

struct PullProgress {
  std::string file;       // the one in hand
  bool checking = false;  // reading what was there before
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

struct PullHooks {
  std::function<void(const PullProgress&)> progress;  // often; may be empty
  std::function<bool()> cancelled;                    // may be empty
  int tries_max = 6;                                  // of one file, without a byte more
  int64_t retry_wait_ms = 1000;  // before the second try; twice as long before each later one
};

// Asks the hub, reads config.json there, and looks at the disk. Errors as of ask_hub(),
// runnable_files() and supported_architecture(); "checksum".
Result<PullPlan> plan_pull(const ModelStore& store, const HubEndpoint& endpoint,
                           const ModelRef& ref, const std::function<bool()>& cancelled);

// kResourceExhausted "no_space" unless the disk keeps its reserve.
Status check_disk(const PullPlan& plan);

// Errors: as above; kDataLoss "checksum" (the file is thrown away); kResourceExhausted "no_space";
// kUnavailable "model_busy"; kCancelled. A model that is there already is returned.
Result<StoredModel> run_pull(const ModelStore& store, const HubEndpoint& endpoint,
                             const PullPlan& plan, const PullHooks& hooks, const Clock& clock);

}  // namespace hs
