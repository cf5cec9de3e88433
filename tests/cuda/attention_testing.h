// A paged cache with random contents, and attention in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda/cuda_testing.h"
#include "kernels/kv_cache.h"

namespace hs::test {

// softmax(q k^T * scale) v of one query row. key(i) and value(i) give the rows of d floats.
template <typename Key, typename Value>
std::vector<double> attend(const float* q, int64_t n_keys, int64_t d, double scale, const Key& key,
                           const Value& value) {
  std::vector<double> weight;
  for (int64_t i = 0; i < n_keys; ++i) {
    const float* k = key(i);
    double dot = 0;
    for (int64_t j = 0; j < d; ++j) dot += double{q[j]} * double{k[j]};
    weight.push_back(dot * scale);
  }
  const double largest = *std::max_element(weight.begin(), weight.end());
  double sum = 0;
  for (double& w : weight) sum += w = std::exp(w - largest);
  std::vector<double> out(static_cast<size_t>(d));
  for (int64_t i = 0; i < n_keys; ++i) {
    const float* v = value(i);
    for (int64_t j = 0; j < d; ++j) {
      out[static_cast<size_t>(j)] += weight[static_cast<size_t>(i)] / sum * double{v[j]};
    }
  }
  return out;
}

// Sequences of given lengths, their blocks scattered over the cache; slots without a token are NaN.
struct PagedCache {
  KvLayout layout;
  std::vector<int32_t> lens;
  int32_t stride;  // of the block tables
  std::vector<int32_t> tables;
  Values values;
  std::vector<float> host;
  DeviceArray<int32_t> device_tables;

  PagedCache(const KvLayout& l, const std::vector<int32_t>& context_lens, uint32_t seed)
      : layout(l),
        lens(context_lens),
        stride(blocks(*std::max_element(lens.begin(), lens.end()))),
        tables(make_tables(seed)),
        values(l.dtype, fill(seed)),
        host(values.get()),
        device_tables(tables) {}

  int32_t blocks(int32_t len) const { return (len + layout.block_size - 1) / layout.block_size; }
  const float* key(size_t seq, int64_t i, int32_t head) const {
    const auto block =
        tables[seq * static_cast<size_t>(stride) + static_cast<size_t>(i / layout.block_size)];
    const auto slot = static_cast<int32_t>(i % layout.block_size);
    return host.data() + layout.key_index(block, head, slot);
  }
  const float* value(size_t seq, int64_t i, int32_t head) const {
    return key(seq, i, head) + layout.block_stride() / 2;
  }

 private:
  // Entries that no token needs name no block.
  std::vector<int32_t> make_tables(uint32_t seed) const {
    int32_t n = 0;
    for (const int32_t len : lens) n += blocks(len);
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 1);  // block 0 belongs to nobody
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    std::vector<int32_t> table(lens.size() * static_cast<size_t>(stride), INT32_MAX);
    size_t next = 0;
    for (size_t s = 0; s < lens.size(); ++s) {
      for (int32_t b = 0; b < blocks(lens[s]); ++b) {
        table[s * static_cast<size_t>(stride) + static_cast<size_t>(b)] = order[next++];
      }
    }
    return table;
  }
  std::vector<float> fill(uint32_t seed) const {
    int32_t n = 1;
    for (const int32_t len : lens) n += blocks(len);
    std::vector<float> all(static_cast<size_t>(n * layout.block_stride()), NAN);
    const auto numbers = random_floats(all.size(), seed + 1);
    for (size_t s = 0; s < lens.size(); ++s) {
      for (int32_t i = 0; i < lens[s]; ++i) {
        const auto block =
            tables[s * static_cast<size_t>(stride) + static_cast<size_t>(i / layout.block_size)];
        for (int32_t h = 0; h < layout.n_kv_heads; ++h) {
          const int64_t k = layout.key_index(block, h, i % layout.block_size);
          const int64_t v = layout.value_index(block, h, i % layout.block_size);
          for (int64_t j = 0; j < layout.d_head; ++j) {
            all[static_cast<size_t>(k + j)] = numbers[static_cast<size_t>(k + j)];
            all[static_cast<size_t>(v + j)] = numbers[static_cast<size_t>(v + j)];
          }
        }
      }
    }
    return all;
  }
};

}  // namespace hs::test
