// Where the rows of a sampling call stand on the device: settings, what they point to, and results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/pinned_ring.h"
#include "kernels/sampling_cuda.h"

namespace hs::cuda {

class SamplingArea {
 public:
  SamplingArea(Context& context, cudaStream_t stream) : context_(context), stream_(stream) {}

  // Room for calls of n_rows rows of `vocab` logits, each with up to n_counts counted tokens.
  Status reserve(int64_t n_rows, int64_t vocab, int64_t n_counts);
  // Runs the kernel on the rows, which are in host memory; `out` is filled when `downloads` has
  // finished. logits: device memory, rows logits_stride apart.
  Status sample(const float* logits, int64_t logits_stride, int64_t vocab,
                std::span<const SamplingRow> rows, std::span<SampledToken> out, UploadRing& uploads,
                DownloadArea& downloads);

 private:
  Status grow(Buffer& buffer, size_t bytes);
  void pack(std::span<const SamplingRow> rows, int64_t vocab);

  Context& context_;
  cudaStream_t stream_;
  Buffer rows_;                    // the settings, then what they point to
  Buffer results_;                 // (n_rows)
  Buffer workspace_;               // sample_workspace_bytes()
  std::vector<std::byte> packed_;  // what goes to rows_
};

}  // namespace hs::cuda
