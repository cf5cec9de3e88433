#include "device/cuda/sampling_area.h"

#include <cstring>
#include <utility>

#include "device/cuda/memory.h"

namespace hs::cuda {
namespace {

constexpr int64_t kBannedIds = 64;  // of a row: end tokens
constexpr int64_t kBiases = 1024;   // of a row; a longer list makes the area grow

int32_t mask_words(int64_t vocab) {
  return static_cast<int32_t>((vocab + 31) / 32);
}

size_t packed_bytes(std::span<const SamplingRow> rows, int64_t vocab) {
  size_t bytes = rows.size_bytes();
  for (const SamplingRow& row : rows) {
    bytes += static_cast<size_t>(row.n_counts) * sizeof(TokenCount) +
             static_cast<size_t>(row.n_banned) * sizeof(int32_t) +
             static_cast<size_t>(row.n_biases) * sizeof(TokenBias);
    if (row.allowed != nullptr) bytes += static_cast<size_t>(mask_words(vocab)) * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace

// A buffer in use by the stream is given back only when that has finished: freeing waits.
Status SamplingArea::grow(Buffer& buffer, size_t bytes) {
  if (buffer.bytes() >= bytes) return {};
  buffer = {};
  Result<Buffer> made = allocate_device(context_, bytes, stream_);
  if (!made) return std::unexpected(std::move(made.error()));
  buffer = std::move(*made);
  return {};
}

Status SamplingArea::reserve(int64_t n_rows, int64_t vocab, int64_t n_counts) {
  const size_t row_bytes = sizeof(SamplingRow) +
                           static_cast<size_t>(n_counts) * sizeof(TokenCount) +
                           static_cast<size_t>(kBannedIds) * sizeof(int32_t) +
                           static_cast<size_t>(kBiases) * sizeof(TokenBias) +
                           static_cast<size_t>(mask_words(vocab)) * sizeof(uint32_t);
  const auto n = static_cast<size_t>(n_rows);
  HS_TRY(grow(rows_, n * row_bytes));
  packed_.reserve(n * row_bytes);
  HS_TRY(grow(results_, n * sizeof(SampledToken)));
  return grow(workspace_, sample_workspace_bytes(n_rows, vocab));
}

// Pointers become those that the copy on the device will have.
void SamplingArea::pack(std::span<const SamplingRow> rows, int64_t vocab) {
  const auto* const device = static_cast<const std::byte*>(rows_.data());
  packed_.resize(packed_bytes(rows, vocab));
  size_t used = rows.size_bytes();
  const auto append = [&](const auto* values, int32_t n) {
    const size_t bytes = static_cast<size_t>(n) * sizeof *values;
    const auto* const at = reinterpret_cast<decltype(values)>(device + used);
    if (bytes > 0) std::memcpy(packed_.data() + used, values, bytes);
    used += bytes;
    return at;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    SamplingRow row = rows[i];
    row.counts = append(row.counts, row.n_counts);
    row.banned_ids = append(row.banned_ids, row.n_banned);
    row.biases = append(row.biases, row.n_biases);
    if (row.allowed != nullptr) row.allowed = append(row.allowed, mask_words(vocab));
    std::memcpy(packed_.data() + i * sizeof row, &row, sizeof row);
  }
}

Status SamplingArea::sample(const float* logits, int64_t logits_stride, int64_t vocab,
                            std::span<const SamplingRow> rows, std::span<SampledToken> out,
                            UploadRing& uploads, DownloadArea& downloads) {
  if (rows.empty()) return {};
  const auto n_rows = static_cast<int64_t>(rows.size());
  HS_TRY(grow(rows_, packed_bytes(rows, vocab)));
  HS_TRY(reserve(n_rows, vocab, 0));
  pack(rows, vocab);
  HS_TRY(uploads.upload(packed_.data(), rows_.data(), packed_.size()));
  HS_CUDA_TRY(context_, cuda::sample({.logits = logits,
                                      .rows = rows_.as<const SamplingRow>(),
                                      .out = results_.as<SampledToken>(),
                                      .n_rows = n_rows,
                                      .vocab = vocab,
                                      .logits_stride = logits_stride,
                                      .workspace = workspace_.as<float>()},
                                     stream_));
  return downloads.download(results_.data(), out.data(), out.size_bytes());
}

}  // namespace hs::cuda
