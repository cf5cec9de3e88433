// How host memory that is not pinned goes to a device and comes back, in the order of one stream:
// through chunks of pinned memory, so that no copy waits for the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "base/function_ref.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"

namespace hs::cuda {

// One thread at a time.
class UploadRing {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;
  static constexpr size_t kChunks = 4;

  static Result<UploadRing> create(Context& context, cudaStream_t stream);

  // The host's bytes may change as soon as it returns; waits only when all chunks are on their way.
  Status upload(const void* host, void* device, size_t bytes);
  // The same with bytes that are made on the way: fill(to, first, n) writes bytes first ..
  // first + n - 1. Pieces begin at multiples of 64.
  Status upload_made(void* device, size_t bytes,
                     FunctionRef<void(std::byte* to, size_t first, size_t n)> fill);

 private:
  UploadRing(Context& context, cudaStream_t stream) : context_(&context), stream_(stream) {}

  Context* context_;
  cudaStream_t stream_;
  Buffer memory_;
  std::vector<Event> sent_;  // of each chunk: its last copy is done
  size_t next_ = 0;
};

// One thread at a time.
class DownloadArea {
 public:
  static constexpr size_t kBytes = size_t{4} << 20;

  static Result<DownloadArea> create(Context& context, cudaStream_t stream);

  // Complete after finish(); waits for the stream when the area is full.
  Status download(const void* device, void* host, size_t bytes);
  // Waits for the stream and hands all downloads out.
  Status finish();

 private:
  struct Pending {
    const std::byte* from;
    void* to;
    size_t bytes;
  };
  DownloadArea(Context& context, cudaStream_t stream) : context_(&context), stream_(stream) {}

  Context* context_;
  cudaStream_t stream_;
  Buffer memory_;
  size_t used_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace hs::cuda
