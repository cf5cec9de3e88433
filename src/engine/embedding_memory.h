// The memory behind a unit's receive slots (embedding_slots.h): rows of image embeddings on the
// language device. Allocated once.
#pragma once

#include <cstdint>
#include <memory>

#include "base/check.h"
#include "device/device.h"

namespace hs {

class EmbeddingMemory {
 public:
  static Result<EmbeddingMemory> allocate(Device& device, int32_t dim, int64_t n_rows) {
    const DType dtype = device.activation_dtype();
    Result<Buffer> buffer = device.allocate(static_cast<size_t>(n_rows) * static_cast<size_t>(dim) *
                                            dtype_bytes(dtype));
    if (!buffer) return std::unexpected(buffer.error());
    return EmbeddingMemory(std::move(*buffer), dtype, dim, n_rows);
  }

  // Rows first .. first + n - 1. Any thread.
  Matrix rows(int64_t first, int64_t n) const {
    HS_CHECK_GE(first, 0);
    HS_CHECK_LE(first + n, n_rows_);
    const Matrix all{const_cast<void*>(buffer_.data()), dtype_, n_rows_, dim_, dim_};
    return all.row_range(first, n);
  }
  size_t row_bytes() const { return static_cast<size_t>(dim_) * dtype_bytes(dtype_); }

 private:
  EmbeddingMemory(Buffer buffer, DType dtype, int32_t dim, int64_t n_rows)
      : buffer_(std::move(buffer)), dtype_(dtype), dim_(dim), n_rows_(n_rows) {}

  Buffer buffer_;
  DType dtype_;
  int32_t dim_;
  int64_t n_rows_;
};

}  // namespace hs
