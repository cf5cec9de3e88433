// The ops of the CPU device: check the shapes, fill in the kernels' parameters, run them on the
// team.
#pragma once

#include "device/device.h"
#include "kernels/team.h"

namespace hs {

// Every op is finished when it returns. A shape that does not fit is our own bug and stops the
// process.
class CpuOps final : public Ops {
 public:
  explicit CpuOps(Team& team) : team_(team) {}

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
  Team& team_;
};

}  // namespace hs
