#include "device/cuda/cuda_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "device/cuda/memory.h"
#include "kernels/activation_cuda.h"
#include "kernels/attention_cuda.h"
#include "kernels/linear_cuda.h"
#include "kernels/norm_cuda.h"
#include "kernels/rope_cuda.h"
#include "kernels/rows_cuda.h"

namespace hs::cuda {
namespace {

constexpr int64_t kDecodeSeqs = 64;  // of one launch of decode attention
constexpr int32_t kChunksMax = 64;   // that a context is cut into

const float* floats(const Vector& v, int64_t size) {
  if (v.data == nullptr) return nullptr;
  HS_CHECK_EQ(v.size, size);
  return static_cast<const float*>(v.data);
}

int32_t div_up(int64_t n, int64_t by) {
  return static_cast<int32_t>((n + by - 1) / by);
}

template <typename Params>
void set_axes(const RopeTable& table, Params& params) {
  params.n_axes = table.n_axes;
  std::memcpy(params.sections, table.sections, sizeof params.sections);
}

}  // namespace

// A failed launch is found by the next sync().
#define HS_OP(call) context_.defer(HS_CUDA(context_, call))

// Whether there is a device to work on.
bool CudaOps::begin() {
  if (context_.is_lost()) return false;
  Status used = context_.use();
  const bool ready = used.has_value();
  context_.defer(std::move(used));
  return ready;
}

void* CudaOps::data_of(const Matrix& m) const {
  HS_CHECK(m.dtype == dtype_);
  HS_CHECK_GE(m.stride, m.cols);
  HS_CHECK(m.data != nullptr || m.rows == 0 || m.cols == 0);
  return m.data;
}

// For kernels that take rows one behind the other.
void* CudaOps::dense(const Matrix& m) const {
  HS_CHECK(m.stride == m.cols || m.rows <= 1);
  return data_of(m);
}

Status CudaOps::reserve(const OpsLimits& limits) {
  if (limits.n_heads > 0) {
    if (limits.d_head % 8 != 0 || limits.d_head > 128) {
      return fail(ErrorKind::kUnsupported,
                  fmt::format("attention heads of {}: on a GPU they must be a multiple of 8, at "
                              "most 128",
                              limits.d_head));
    }
    // A longer context has longer chunks: their number bounds the workspace.
    while (int64_t{chunk_tokens_} * kChunksMax < limits.context_max) chunk_tokens_ *= 2;
    DecodeAttentionParams params;
    params.layout.d_head = limits.d_head;
    params.n_seqs = std::min(limits.n_seqs, kDecodeSeqs);
    params.n_heads = limits.n_heads;
    params.n_chunks_max = div_up(limits.context_max, chunk_tokens_);
    const size_t bytes = decode_attention_workspace_bytes(params);
    if (bytes > attention_.bytes()) {
      Result<Buffer> made = allocate_device(context_, bytes, stream_);
      if (!made) return std::unexpected(std::move(made.error()));
      attention_ = std::move(*made);
    }
  }
  if (limits.n_logit_rows == 0) return {};
  return sampling_.reserve(limits.n_logit_rows, limits.vocab,
                           std::min(limits.context_max, limits.vocab));
}

void CudaOps::linear(Matrix x, const PackedWeight& weight, Vector bias, Matrix y, Epilogue epilogue,
                     bool accumulate) {
  HS_CHECK_EQ(x.rows, y.rows);
  HS_CHECK_EQ(x.cols, weight.in_dim);
  HS_CHECK_EQ(y.cols, weight.out_dim);
  HS_CHECK(weight.dtype == dtype_);
  HS_CHECK(y.dtype == dtype_ || y.dtype == DType::kF32);
  if (x.rows == 0 || !begin()) return;
  const LinearParams params{.dtype = dtype_,
                            .y_dtype = y.dtype,
                            .x = data_of(x),
                            .weight = weight.data,
                            .bias = floats(bias, weight.out_dim),
                            .y = y.data,
                            .n_rows = x.rows,
                            .out_dim = weight.out_dim,
                            .in_dim = weight.in_dim,
                            .x_stride = x.stride,
                            .y_stride = y.stride,
                            .epilogue = epilogue,
                            .accumulate = accumulate};
  if (x.rows <= kFewRowsMax) {
    HS_OP(few_rows_linear(params, stream_));
  } else {
    context_.defer(blas_.linear(params));
  }
}

NormParams CudaOps::norm_params(const Matrix& x, const Vector& weight, const Vector& bias,
                                float eps, const Matrix& y) const {
  HS_CHECK_EQ(x.rows, y.rows);
  HS_CHECK_EQ(x.cols, y.cols);
  return {.dtype = dtype_,
          .x = data_of(x),
          .weight = floats(weight, x.cols),
          .bias = floats(bias, x.cols),
          .y = data_of(y),
          .n_rows = x.rows,
          .dim = x.cols,
          .x_stride = x.stride,
          .y_stride = y.stride,
          .eps = eps};
}

void CudaOps::rms_norm(Matrix x, Vector weight, float eps, Matrix y) {
  const NormParams params = norm_params(x, weight, {}, eps, y);
  if (begin()) HS_OP(cuda::rms_norm(params, stream_));
}

void CudaOps::layer_norm(Matrix x, Vector weight, Vector bias, float eps, Matrix y) {
  const NormParams params = norm_params(x, weight, bias, eps, y);
  if (begin()) HS_OP(cuda::layer_norm(params, stream_));
}

void CudaOps::silu_mul(Matrix gate_up, Matrix y) {
  HS_CHECK_EQ(gate_up.rows, y.rows);
  HS_CHECK_EQ(gate_up.cols, 2 * y.cols);
  if (!begin()) return;
  HS_OP(gated_activation({.dtype = dtype_,
                          .gate_up = dense(gate_up),
                          .y = dense(y),
                          .n_rows = y.rows,
                          .dim = y.cols,
                          .activation = Epilogue::kSilu},
                         stream_));
}

void CudaOps::rope_append(Matrix qkv, const RopeTable& table, const AttentionBatch& batch, void* kv,
                          const KvLayout& layout) {
  HS_CHECK_EQ(qkv.cols % layout.d_head, 0);
  const int64_t n_heads = qkv.cols / layout.d_head - 2 * int64_t{layout.n_kv_heads};
  HS_CHECK_GT(n_heads, 0);
  if (!begin()) return;
  RopeAppendParams params{.dtype = dtype_,
                          .qkv = data_of(qkv),
                          .cos = table.cos,
                          .sin = table.sin,
                          .positions = batch.positions,
                          .slots = batch.slots,
                          .kv = kv,
                          .layout = layout,
                          .n_tokens = qkv.rows,
                          .qkv_stride = qkv.stride,
                          .n_heads = static_cast<int32_t>(n_heads)};
  set_axes(table, params);
  HS_OP(cuda::rope_append(params, stream_));
}

void CudaOps::rope_rotate(Matrix x, int32_t d_head, const RopeTable& table,
                          const int32_t* positions) {
  HS_CHECK_EQ(x.cols % d_head, 0);
  if (!begin()) return;
  RopeRotateParams params{.dtype = dtype_,
                          .x = data_of(x),
                          .cos = table.cos,
                          .sin = table.sin,
                          .positions = positions,
                          .n_rows = x.rows,
                          .x_stride = x.stride,
                          .n_heads = static_cast<int32_t>(x.cols / d_head),
                          .d_head = d_head};
  set_axes(table, params);
  HS_OP(cuda::rope_rotate(params, stream_));
}

// Sequences with one row read their keys at the speed of memory; the others use tensor cores.
void CudaOps::paged_attention(Matrix q, const void* kv, const KvLayout& layout,
                              const AttentionBatch& batch, float scale, Matrix out) {
  HS_CHECK_EQ(q.rows, out.rows);
  HS_CHECK_EQ(q.cols, out.cols);
  HS_CHECK_EQ(q.cols % layout.d_head, 0);
  HS_CHECK_LE(batch.n_single, batch.n_seqs);
  if (!begin()) return;
  if (batch.n_single > 0) decode(q, kv, layout, batch, scale, out);
  if (batch.n_single == batch.n_seqs) return;
  const int64_t first = batch.n_single;
  HS_OP(
      cuda::paged_attention({.dtype = dtype_,
                             .q = data_of(q),
                             .kv = kv,
                             .layout = layout,
                             .block_tables = batch.block_tables + first * batch.block_table_stride,
                             .cu_query = batch.cu_query + first,
                             .context_lens = batch.context_lens + first,
                             .out = data_of(out),
                             .n_tokens = q.rows,
                             .n_seqs = batch.n_seqs - first,
                             .q_stride = q.stride,
                             .out_stride = out.stride,
                             .block_table_stride = batch.block_table_stride,
                             .n_heads = static_cast<int32_t>(q.cols / layout.d_head),
                             .scale = scale},
                            stream_));
}

// The first n_single sequences, whose rows are the first of q. How many chunks a context is cut
// into follows from the tables' width, which is part of what a recorded step depends on.
void CudaOps::decode(Matrix q, const void* kv, const KvLayout& layout, const AttentionBatch& batch,
                     float scale, Matrix out) {
  const int64_t context_max = int64_t{batch.block_table_stride} * layout.block_size;
  for (int64_t first = 0; first < batch.n_single; first += kDecodeSeqs) {
    const int64_t n = std::min(kDecodeSeqs, batch.n_single - first);
    DecodeAttentionParams params{
        .dtype = dtype_,
        .q = data_of(q.row_range(first, n)),
        .kv = kv,
        .layout = layout,
        .block_tables = batch.block_tables + first * batch.block_table_stride,
        .context_lens = batch.context_lens + first,
        .out = data_of(out.row_range(first, n)),
        .n_seqs = n,
        .q_stride = q.stride,
        .out_stride = out.stride,
        .block_table_stride = batch.block_table_stride,
        .n_heads = static_cast<int32_t>(q.cols / layout.d_head),
        .scale = scale,
        .chunk_tokens = chunk_tokens_,
        .n_chunks_max = div_up(context_max, chunk_tokens_)};
    const size_t bytes = decode_attention_workspace_bytes(params);
    if (bytes > attention_.bytes()) {
      attention_ = {};
      Result<Buffer> made = allocate_device(context_, bytes, stream_);
      if (!made) return context_.defer(std::unexpected(std::move(made.error())));
      attention_ = std::move(*made);
    }
    params.workspace = attention_.as<float>();
    HS_OP(decode_attention(params, stream_));
  }
}

void CudaOps::packed_attention(Matrix qkv, const int32_t* cu_seqlens, int64_t n_segments,
                               int32_t n_heads, float scale, Matrix out) {
  HS_CHECK_EQ(qkv.rows, out.rows);
  HS_CHECK_EQ(qkv.cols, 3 * out.cols);
  HS_CHECK_EQ(out.cols % n_heads, 0);
  if (!begin()) return;
  HS_OP(cuda::packed_attention({.dtype = dtype_,
                                .q = data_of(qkv),
                                .k = data_of(qkv.col_range(out.cols, out.cols)),
                                .v = data_of(qkv.col_range(2 * out.cols, out.cols)),
                                .cu_seqlens = cu_seqlens,
                                .out = data_of(out),
                                .n_tokens = qkv.rows,
                                .n_segments = n_segments,
                                .qkv_stride = qkv.stride,
                                .out_stride = out.stride,
                                .n_heads = n_heads,
                                .d_head = static_cast<int32_t>(out.cols / n_heads),
                                .scale = scale},
                               stream_));
}

void CudaOps::embed(const Table& table, const int32_t* ids, Matrix y) {
  HS_CHECK_EQ(table.cols, y.cols);
  if (!begin()) return;
  HS_OP(cuda::embed({.table_dtype = table.dtype,
                     .dtype = dtype_,
                     .table = table.data,
                     .ids = ids,
                     .y = dense(y),
                     .n_rows = y.rows,
                     .dim = y.cols},
                    stream_));
}

// Packed weights have the checkpoint's layout here: a table.
void CudaOps::embed(const PackedWeight& table, const int32_t* ids, Matrix y) {
  embed(Table{table.data, table.dtype, table.out_dim, table.in_dim}, ids, y);
}

void CudaOps::gather_rows(Matrix x, const int32_t* index, Matrix y) {
  HS_CHECK_EQ(x.cols, y.cols);
  if (!begin()) return;
  HS_OP(cuda::gather_rows({.dtype = dtype_,
                           .x = data_of(x),
                           .index = index,
                           .y = data_of(y),
                           .n_rows = y.rows,
                           .dim = y.cols,
                           .x_stride = x.stride,
                           .y_stride = y.stride},
                          stream_));
}

void CudaOps::add_rows(Matrix y, Matrix table) {
  HS_CHECK_EQ(y.cols, table.cols);
  HS_CHECK(table.rows > 0 || y.rows == 0);
  if (!begin()) return;
  HS_OP(cuda::add_rows({.dtype = dtype_,
                        .y = dense(y),
                        .table = dense(table),
                        .n_rows = y.rows,
                        .dim = y.cols,
                        .period = table.rows},
                       stream_));
}

void CudaOps::add_parts(std::span<const Matrix> parts, Matrix y) {
  HS_CHECK(!parts.empty() && parts.size() <= AddPartsParams::kPartsMax);
  if (!begin()) return;
  AddPartsParams params{.dtype = dtype_, .y = dense(y), .n_rows = y.rows, .dim = y.cols};
  for (const Matrix& part : parts) {
    HS_CHECK_EQ(part.rows, y.rows);
    HS_CHECK_EQ(part.cols, y.cols);
    params.parts[params.n_parts++] = dense(part);
  }
  HS_OP(cuda::add_parts(params, stream_));
}

void CudaOps::copy(Matrix from, Matrix to) {
  HS_CHECK_EQ(from.rows, to.rows);
  HS_CHECK_EQ(from.cols, to.cols);
  if (from.cols == 0 || !begin()) return;
  HS_OP(cuda::gather_rows({.dtype = dtype_,
                           .x = data_of(from),
                           .index = nullptr,
                           .y = data_of(to),
                           .n_rows = from.rows,
                           .dim = from.cols,
                           .x_stride = from.stride,
                           .y_stride = to.stride},
                          stream_));
}

void CudaOps::sample(Matrix logits, int64_t vocab, std::span<const SamplingRow> rows,
                     std::span<SampledToken> out) {
  HS_CHECK(logits.dtype == DType::kF32);
  HS_CHECK_LE(vocab, logits.cols);
  HS_CHECK_EQ(static_cast<int64_t>(rows.size()), logits.rows);
  HS_CHECK_EQ(rows.size(), out.size());
  if (!begin()) return;
  context_.defer(sampling_.sample(static_cast<const float*>(logits.data), logits.stride, vocab,
                                  rows, out, uploads_, downloads_));
}

}  // namespace hs::cuda
