// Choosing the next token on a GPU, as kernels/sampling.h defines it. The token of a row is the one
// that sample_cpu() gives for the same logits and settings, bit for bit; log-probabilities are
// within 2e-6 of float64.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/sampling.h"

namespace hs::cuda {

// All pointers are device memory, also those inside of the rows (banned_ids, counts,
// biases, allowed).
struct SampleParams {
  const float* logits = nullptr;      // (n_rows, vocab), rows logits_stride apart
  const SamplingRow* rows = nullptr;  // (n_rows)
  SampledToken* out = nullptr;        // (n_rows)
  int64_t n_rows = 0;
  int64_t vocab = 0;           // ids >= vocab (padding columns) are never sampled
  int64_t logits_stride = 0;   // in floats
  float* workspace = nullptr;  // sample_workspace_bytes(); the logits after penalties and biases
};
size_t sample_workspace_bytes(int64_t n_rows, int64_t vocab);
cudaError_t sample(const SampleParams& params, cudaStream_t stream);

}  // namespace hs::cuda
