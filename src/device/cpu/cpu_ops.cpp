#include "device/cpu/cpu_ops.h"

#include <cstring>

#include "base/check.h"
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/sampling.h"

namespace hs {
namespace {

float* floats(const Matrix& m) {
  HS_CHECK(m.dtype == DType::kF32);
  HS_CHECK_GE(m.stride, m.cols);
  HS_CHECK(m.data != nullptr || m.rows == 0 || m.cols == 0);
  return static_cast<float*>(m.data);
}

// For kernels that take rows one behind the other.
float* dense_floats(const Matrix& m) {
  HS_CHECK(m.stride == m.cols || m.rows <= 1);
  return floats(m);
}

const float* floats(const Vector& v, int64_t size) {
  if (v.data == nullptr) return nullptr;
  HS_CHECK_EQ(v.size, size);
  return static_cast<const float*>(v.data);
}

NormParams norm_params(const Matrix& x, const Vector& weight, const Vector& bias, float eps,
                       const Matrix& y) {
  HS_CHECK_EQ(x.rows, y.rows);
  HS_CHECK_EQ(x.cols, y.cols);
  HS_CHECK(weight.data != nullptr);
  return {.x = floats(x),
          .weight = floats(weight, x.cols),
          .bias = floats(bias, x.cols),
          .y = floats(y),
          .n_rows = x.rows,
          .dim = x.cols,
          .x_stride = x.stride,
          .y_stride = y.stride,
          .eps = eps};
}

}  // namespace

void CpuOps::linear(Matrix x, const PackedWeight& weight, Vector bias, Matrix y, Epilogue epilogue,
                    bool accumulate) {
  HS_CHECK_EQ(x.rows, y.rows);
  HS_CHECK_EQ(x.cols, weight.in_dim);
  HS_CHECK_EQ(y.cols, weight.out_dim);
  linear_cpu({.x = floats(x),
              .weight = weight,
              .bias = floats(bias, weight.out_dim),
              .y = floats(y),
              .n_rows = x.rows,
              .x_stride = x.stride,
              .y_stride = y.stride,
              .epilogue = epilogue,
              .accumulate = accumulate},
             team_);
}

void CpuOps::rms_norm(Matrix x, Vector weight, float eps, Matrix y) {
  rms_norm_cpu(norm_params(x, weight, {}, eps, y), team_);
}

void CpuOps::layer_norm(Matrix x, Vector weight, Vector bias, float eps, Matrix y) {
  layer_norm_cpu(norm_params(x, weight, bias, eps, y), team_);
}

void CpuOps::silu_mul(Matrix gate_up, Matrix y) {
  HS_CHECK_EQ(gate_up.rows, y.rows);
  HS_CHECK_EQ(gate_up.cols, 2 * y.cols);
  silu_mul_cpu(
      {.gate_up = dense_floats(gate_up), .y = dense_floats(y), .n_rows = y.rows, .dim = y.cols},
      team_);
}

void CpuOps::rope_append(Matrix qkv, const RopeTable& table, const AttentionBatch& batch, void* kv,
                         const KvLayout& layout) {
  HS_CHECK_EQ(qkv.cols % layout.d_head, 0);
  const int64_t n_heads = qkv.cols / layout.d_head - 2 * int64_t{layout.n_kv_heads};
  HS_CHECK_GT(n_heads, 0);
  RopeAppendParams params{.qkv = dense_floats(qkv),
                          .cos = table.cos,
                          .sin = table.sin,
                          .positions = batch.positions,
                          .slots = batch.slots,
                          .kv = kv,
                          .layout = layout,
                          .n_tokens = qkv.rows,
                          .n_heads = static_cast<int32_t>(n_heads),
                          .n_axes = table.n_axes};
  std::memcpy(params.sections, table.sections, sizeof params.sections);
  rope_append_cpu(params, team_);
}

void CpuOps::rope_rotate(Matrix x, int32_t d_head, const RopeTable& table,
                         const int32_t* positions) {
  HS_CHECK_EQ(x.cols % d_head, 0);
  RopeRotateParams params{.x = floats(x),
                          .cos = table.cos,
                          .sin = table.sin,
                          .positions = positions,
                          .n_rows = x.rows,
                          .x_stride = x.stride,
                          .n_heads = static_cast<int32_t>(x.cols / d_head),
                          .d_head = d_head,
                          .n_axes = table.n_axes};
  std::memcpy(params.sections, table.sections, sizeof params.sections);
  rope_rotate_cpu(params, team_);
}

void CpuOps::paged_attention(Matrix q, const void* kv, const KvLayout& layout,
                             const AttentionBatch& batch, float scale, Matrix out) {
  HS_CHECK_EQ(q.rows, out.rows);
  HS_CHECK_EQ(q.cols, out.cols);
  HS_CHECK_EQ(q.cols % layout.d_head, 0);
  const int64_t n_heads = q.cols / layout.d_head;
  HS_CHECK_EQ(n_heads % layout.n_kv_heads, 0);
  paged_attention_cpu({.q = floats(q),
                       .kv = kv,
                       .layout = layout,
                       .block_tables = batch.block_tables,
                       .cu_query = batch.cu_query,
                       .context_lens = batch.context_lens,
                       .out = dense_floats(out),
                       .n_seqs = batch.n_seqs,
                       .q_stride = q.stride,
                       .block_table_stride = batch.block_table_stride,
                       .n_heads = static_cast<int32_t>(n_heads),
                       .scale = scale},
                      team_);
}

void CpuOps::packed_attention(Matrix qkv, const int32_t* cu_seqlens, int64_t n_segments,
                              int32_t n_heads, float scale, Matrix out) {
  HS_CHECK_EQ(qkv.rows, out.rows);
  HS_CHECK_EQ(qkv.cols, 3 * out.cols);
  HS_CHECK_EQ(out.cols % n_heads, 0);
  const float* q = floats(qkv);
  packed_attention_cpu({.q = q,
                        .k = q + out.cols,
                        .v = q + 2 * out.cols,
                        .cu_seqlens = cu_seqlens,
                        .out = dense_floats(out),
                        .n_segments = n_segments,
                        .qkv_stride = qkv.stride,
                        .n_heads = n_heads,
                        .d_head = static_cast<int32_t>(out.cols / n_heads),
                        .scale = scale},
                       team_);
}

void CpuOps::embed(const Table& table, const int32_t* ids, Matrix y) {
  HS_CHECK_EQ(table.cols, y.cols);
  embed_cpu({.table = table.data,
             .dtype = table.dtype,
             .ids = ids,
             .y = dense_floats(y),
             .n_rows = y.rows,
             .dim = y.cols},
            team_);
}

void CpuOps::embed(const PackedWeight& table, const int32_t* ids, Matrix y) {
  HS_CHECK_EQ(table.in_dim, y.cols);
  embed_packed_cpu({.table = table, .ids = ids, .y = dense_floats(y), .n_rows = y.rows}, team_);
}

void CpuOps::gather_rows(Matrix x, const int32_t* index, Matrix y) {
  HS_CHECK_EQ(x.cols, y.cols);
  gather_rows_cpu({.x = floats(x),
                   .index = index,
                   .y = dense_floats(y),
                   .n_rows = y.rows,
                   .dim = y.cols,
                   .x_stride = x.stride},
                  team_);
}

void CpuOps::add_rows(Matrix y, Matrix table) {
  HS_CHECK_EQ(y.cols, table.cols);
  HS_CHECK(table.rows > 0 || y.rows == 0);
  add_rows_cpu({.y = dense_floats(y),
                .table = dense_floats(table),
                .n_rows = y.rows,
                .dim = y.cols,
                .period = table.rows},
               team_);
}

void CpuOps::add_parts(std::span<const Matrix> parts, Matrix y) {
  constexpr size_t kPartsMax = 64;
  HS_CHECK(!parts.empty() && parts.size() <= kPartsMax);
  const float* pointers[kPartsMax];
  for (size_t i = 0; i < parts.size(); ++i) {
    HS_CHECK_EQ(parts[i].rows, y.rows);
    HS_CHECK_EQ(parts[i].cols, y.cols);
    pointers[i] = dense_floats(parts[i]);
  }
  add_parts_cpu({.parts = pointers,
                 .n_parts = static_cast<int64_t>(parts.size()),
                 .y = dense_floats(y),
                 .n_rows = y.rows,
                 .dim = y.cols},
                team_);
}

void CpuOps::copy(Matrix from, Matrix to) {
  HS_CHECK_EQ(from.rows, to.rows);
  HS_CHECK_EQ(from.cols, to.cols);
  const float* source = floats(from);
  float* target = floats(to);
  const size_t row_bytes = static_cast<size_t>(from.cols) * sizeof(float);
  if (row_bytes == 0) return;
  for (int64_t row = 0; row < from.rows; ++row) {
    std::memcpy(target + row * to.stride, source + row * from.stride, row_bytes);
  }
}

void CpuOps::sample(Matrix logits, int64_t vocab, std::span<const SamplingRow> rows,
                    std::span<SampledToken> out) {
  HS_CHECK_LE(vocab, logits.cols);
  HS_CHECK_EQ(static_cast<int64_t>(rows.size()), logits.rows);
  HS_CHECK_EQ(rows.size(), out.size());
  sample_cpu({.logits = floats(logits),
              .rows = rows.data(),
              .out = out.data(),
              .n_rows = logits.rows,
              .vocab = vocab,
              .logits_stride = logits.stride},
             team_);
}

}  // namespace hs
