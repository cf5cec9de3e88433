// Copies and checksums beside the ops, on a stream of their own: each is complete when it returns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "device/cuda/stream.h"
#include "device/device.h"

namespace hs::cuda {

// Any thread: one at a time works, the others wait.
class CopyEngine {
 public:
  static Result<std::unique_ptr<CopyEngine>> create(Context& context);
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  Status read(std::span<const CopyRun> runs);
  Status write(std::span<const CopyRun> runs);
  // From the device `source`, whose memory this one reaches, or is.
  Status copy_from(int source, std::span<const CopyRun> runs);
  Result<MemoryCheck> check(std::span<const MemoryRange> ranges, DType dtype);

 private:
  explicit CopyEngine(Context& context) : context_(context) {}
  Status copy(std::span<const CopyRun> runs, cudaMemcpyKind kind);
  Status check_some(int32_t n_ranges, uint64_t n_words, DType dtype, MemoryCheck& result);

  Context& context_;
  std::mutex mutex_;  // guards what follows
  Stream stream_;
  Buffer host_;    // pinned: a table of ranges, then results
  Buffer device_;  // the same
};

}  // namespace hs::cuda
