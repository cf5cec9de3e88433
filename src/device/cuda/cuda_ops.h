// The ops of models as launches of kernels, in the order of one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/blas_lt.h"
#include "device/cuda/sampling_area.h"
#include "device/device.h"
#include "kernels/norm_cuda.h"

namespace hs::cuda {

// Everything is enqueued; failures come back at the device's sync(). Activations, weights and the
// KV cache are of one dtype, kBF16 or kF16; logits are float32.
class CudaOps final : public Ops {
 public:
  CudaOps(Context& context, cudaStream_t stream, DType dtype, BlasLt& blas, UploadRing& uploads,
          DownloadArea& downloads)
      : context_(context),
        stream_(stream),
        dtype_(dtype),
        blas_(blas),
        uploads_(uploads),
        downloads_(downloads),
        sampling_(context, stream) {}

  Status reserve(const OpsLimits& limits) override;
  void linear(Matrix x, const PackedWeight& weight, Vector bias, Matrix y, Epilogue epilogue,
              bool accumulate) override;
  void rms_norm(Matrix x, Vector weight, float eps, Matrix y) override;
  void layer_norm(Matrix x, Vector weight, Vector bias, float eps, Matrix y) override;
  void silu_mul(Matrix gate_up, Matrix y) override;
  void rope_append(Matrix qkv, const RopeTable& table, const AttentionBatch& batch, void* kv,
                   const KvLayout& layout) override;
  void rope_rotate(Matrix x, int32_t d_head, const RopeTable& table,
                   const int32_t* positions) override;
  void paged_attention(Matrix q, const void* kv, const KvLayout& layout,
                       const AttentionBatch& batch, float scale, Matrix out) override;
  void packed_attention(Matrix qkv, const int32_t* cu_seqlens, int64_t n_segments, int32_t n_heads,
                        float scale, Matrix out) override;
  void embed(const Table& table, const int32_t* ids, Matrix y) override;
  void embed(const PackedWeight& table, const int32_t* ids, Matrix y) override;
  void gather_rows(Matrix x, const int32_t* index, Matrix y) override;
  void add_rows(Matrix y, Matrix table) override;
  void add_parts(std::span<const Matrix> parts, Matrix y) override;
  void copy(Matrix from, Matrix to) override;
  void sample(Matrix logits, int64_t vocab, std::span<const SamplingRow> rows,
              std::span<SampledToken> out) override;

 private:
  bool begin();
  void* data_of(const Matrix& m) const;
  void* dense(const Matrix& m) const;
  NormParams norm_params(const Matrix& x, const Vector& weight, const Vector& bias, float eps,
                         const Matrix& y) const;
  void decode(Matrix q, const void* kv, const KvLayout& layout, const AttentionBatch& batch,
              float scale, Matrix out);

  Context& context_;
  cudaStream_t stream_;
  DType dtype_;
  BlasLt& blas_;
  UploadRing& uploads_;
  DownloadArea& downloads_;
  SamplingArea sampling_;
  Buffer attention_;  // workspace of decode attention
  int32_t chunk_tokens_ = 256;
};

}  // namespace hs::cuda
