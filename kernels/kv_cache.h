// Where a key or value vector stands in the paged KV cache of one layer.
// Layout: [block][K|V][kv head][slot in block][d_head], so that one head's page is one contiguous
// run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace hs {

struct KvLayout {
  DType dtype = DType::kF32;  // kF32 or kBF16, on a GPU kF16
  int32_t block_size = 16;    // token slots in a block
  int32_t n_kv_heads = 0;
  int32_t d_head = 0;

  // Elements from one block to the next.
  constexpr int64_t block_stride() const { return int64_t{2} * n_kv_heads * block_size * d_head; }
  constexpr int64_t key_index(int64_t block, int32_t head, int32_t slot) const {
    return block * block_stride() + (int64_t{head} * block_size + slot) * d_head;
  }
  constexpr int64_t value_index(int64_t block, int32_t head, int32_t slot) const {
    return key_index(block, head, slot) + block_stride() / 2;
  }
  constexpr size_t block_bytes() const {
    return static_cast<size_t>(block_stride()) * dtype_bytes(dtype);
  }
};

}  // namespace hs
