// A device in plain loops with double sums: slow, obvious, and the oracle that other devices are
// compared with. Weights and cache are rounded to bfloat16 where a model asks for it; activations
// are float32.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"
#include "device/host_device.h"

namespace hs::test {

inline float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

inline float from_f16(uint16_t bits) {
  _Float16 half;
  std::memcpy(&half, &bits, sizeof half);
  return static_cast<float>(half);
}

// Element i of numbers stored as dtype.
inline float read_number(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  return dtype == DType::kF16 ? from_f16(bits) : from_bf16(bits);
}

inline void write_number(void* data, DType dtype, int64_t i, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<uint16_t*>(data)[i] = to_bf16(value);
  }
}

class ReferenceOps final : public Ops {
 public:
  void linear(Matrix x, const PackedWeight& weight, Vector bias, Matrix y, Epilogue epilogue,
              bool accumulate) override {
    HS_CHECK_EQ(x.cols, weight.in_dim);
    HS_CHECK_EQ(y.cols, weight.out_dim);
    HS_CHECK_EQ(x.rows, y.rows);
    const auto* w = static_cast<const float*>(weight.data);
    const auto* b = static_cast<const float*>(bias.data);
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t j = 0; j < y.cols; ++j) {
        double sum = b != nullptr ? static_cast<double>(b[j]) : 0.0;
        for (int64_t k = 0; k < x.cols; ++k) {
          sum += static_cast<double>(row(x, i)[k]) * static_cast<double>(w[j * x.cols + k]);
        }
        const auto value = static_cast<float>(apply(epilogue, sum));
        row(y, i)[j] = accumulate ? row(y, i)[j] + value : value;
      }
    }
  }

  void rms_norm(Matrix x, Vector weight, float eps, Matrix y) override {
    const auto* w = static_cast<const float*>(weight.data);
    for (int64_t i = 0; i < x.rows; ++i) {
      double squares = 0;
      for (int64_t k = 0; k < x.cols; ++k) squares += square(row(x, i)[k]);
      const double scale =
          1.0 / std::sqrt(squares / static_cast<double>(x.cols) + static_cast<double>(eps));
      for (int64_t k = 0; k < x.cols; ++k) {
        row(y, i)[k] = static_cast<float>(static_cast<double>(row(x, i)[k]) * scale) * w[k];
      }
    }
  }

  void layer_norm(Matrix x, Vector weight, Vector bias, float eps, Matrix y) override {
    const auto* w = static_cast<const float*>(weight.data);
    const auto* b = static_cast<const float*>(bias.data);
    for (int64_t i = 0; i < x.rows; ++i) {
      const auto n = static_cast<double>(x.cols);
      double mean = 0;
      for (int64_t k = 0; k < x.cols; ++k) mean += static_cast<double>(row(x, i)[k]) / n;
      double variance = 0;
      for (int64_t k = 0; k < x.cols; ++k)
        variance += square(static_cast<double>(row(x, i)[k]) - mean) / n;
      const double scale = 1.0 / std::sqrt(variance + static_cast<double>(eps));
      for (int64_t k = 0; k < x.cols; ++k) {
        const double unit = (static_cast<double>(row(x, i)[k]) - mean) * scale;
        row(y, i)[k] = static_cast<float>(unit * static_cast<double>(w[k]) +
                                          (b != nullptr ? static_cast<double>(b[k]) : 0.0));
      }
    }
  }

  void silu_mul(Matrix gate_up, Matrix y) override {
    HS_CHECK_EQ(gate_up.cols, 2 * y.cols);
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t k = 0; k < y.cols; ++k) {
        const double gate = static_cast<double>(row(gate_up, i)[k]);
        row(y, i)[k] = static_cast<float>(apply(Epilogue::kSilu, gate) *
                                          static_cast<double>(row(gate_up, i)[y.cols + k]));
      }
    }
  }

  void rope_append(Matrix qkv, const RopeTable& table, const AttentionBatch& batch, void* kv,
                   const KvLayout& layout) override {
    const int64_t d = layout.d_head;
    const int64_t n_heads = qkv.cols / d - 2 * layout.n_kv_heads;
    rope_rotate({qkv.data, qkv.dtype, qkv.rows, (n_heads + layout.n_kv_heads) * d, qkv.stride},
                layout.d_head, table, batch.positions);
    for (int64_t i = 0; i < qkv.rows; ++i) {
      const int64_t block = batch.slots[i] / layout.block_size;
      const auto slot = static_cast<int32_t>(batch.slots[i] % layout.block_size);
      for (int32_t h = 0; h < layout.n_kv_heads; ++h) {
        const float* k = row(qkv, i) + (n_heads + h) * d;
        const float* v = k + layout.n_kv_heads * d;
        for (int64_t e = 0; e < d; ++e) {
          write_number(kv, layout.dtype, layout.key_index(block, h, slot) + e, k[e]);
          write_number(kv, layout.dtype, layout.value_index(block, h, slot) + e, v[e]);
        }
      }
    }
  }

  void rope_rotate(Matrix x, int32_t d_head, const RopeTable& table,
                   const int32_t* positions) override {
    const int64_t d = d_head;
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t f = 0; f < d / 2; ++f) {
        int32_t axis = 0;
        for (int64_t end = table.sections[0]; table.n_axes > 1 && f >= end; ++axis) {
          end += table.sections[axis + 1];
        }
        HS_CHECK_LT(axis, table.n_axes);
        const int64_t position = positions[axis * x.rows + i];
        HS_CHECK(position >= 0 && position < table.n_positions);
        const float cos = table.cos[position * d / 2 + f];
        const float sin = table.sin[position * d / 2 + f];
        for (int64_t h = 0; h < x.cols / d; ++h) {
          float* head = row(x, i) + h * d;
          const float a = head[f];
          const float b = head[f + d / 2];
          head[f] = a * cos - b * sin;
          head[f + d / 2] = b * cos + a * sin;
        }
      }
    }
  }

  void paged_attention(Matrix q, const void* kv, const KvLayout& layout,
                       const AttentionBatch& batch, float scale, Matrix out) override {
    const int64_t d = layout.d_head;
    const int64_t n_heads = q.cols / d;
    for (int64_t s = 0; s < batch.n_seqs; ++s) {
      const int32_t* blocks = batch.block_tables + s * batch.block_table_stride;
      const auto place = [&](int64_t token) {
        return std::pair<int64_t, int32_t>(blocks[token / layout.block_size],
                                           static_cast<int32_t>(token % layout.block_size));
      };
      const int64_t n_new = batch.cu_query[s + 1] - batch.cu_query[s];
      for (int64_t i = 0; i < n_new; ++i) {
        const int64_t n_keys = batch.context_lens[s] - n_new + i + 1;
        for (int64_t h = 0; h < n_heads; ++h) {
          const auto kv_head = static_cast<int32_t>(h / (n_heads / layout.n_kv_heads));
          const auto key = [&](int64_t t, int64_t e) {
            const auto [block, slot] = place(t);
            return read_number(kv, layout.dtype, layout.key_index(block, kv_head, slot) + e);
          };
          const auto value = [&](int64_t t, int64_t e) {
            const auto [block, slot] = place(t);
            return read_number(kv, layout.dtype, layout.value_index(block, kv_head, slot) + e);
          };
          const int64_t r = batch.cu_query[s] + i;
          attend(row(q, r) + h * d, n_keys, d, scale, key, value, row(out, r) + h * d);
        }
      }
    }
  }

  void packed_attention(Matrix qkv, const int32_t* cu_seqlens, int64_t n_segments, int32_t n_heads,
                        float scale, Matrix out) override {
    const int64_t width = qkv.cols / 3;
    const int64_t d = width / n_heads;
    for (int64_t s = 0; s < n_segments; ++s) {
      const int64_t first = cu_seqlens[s];
      const int64_t n = cu_seqlens[s + 1] - first;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t h = 0; h < n_heads; ++h) {
          const auto key = [&](int64_t t, int64_t e) {
            return row(qkv, first + t)[width + h * d + e];
          };
          const auto value = [&](int64_t t, int64_t e) {
            return row(qkv, first + t)[2 * width + h * d + e];
          };
          attend(row(qkv, first + i) + h * d, n, d, scale, key, value, row(out, first + i) + h * d);
        }
      }
    }
  }

  void embed(const Table& table, const int32_t* ids, Matrix y) override {
    for (int64_t i = 0; i < y.rows; ++i) {
      if (ids[i] < 0) continue;
      HS_CHECK_LT(ids[i], table.rows);
      for (int64_t k = 0; k < y.cols; ++k) {
        row(y, i)[k] = read_number(table.data, table.dtype, ids[i] * table.cols + k);
      }
    }
  }

  void embed(const PackedWeight& table, const int32_t* ids, Matrix y) override {
    embed(Table{table.data, DType::kF32, table.out_dim, table.in_dim}, ids, y);
  }

  void gather_rows(Matrix x, const int32_t* index, Matrix y) override {
    for (int64_t i = 0; i < y.rows; ++i) {
      HS_CHECK_LT(index[i], x.rows);
      std::copy_n(row(x, index[i]), y.cols, row(y, i));
    }
  }

  void add_rows(Matrix y, Matrix table) override {
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t k = 0; k < y.cols; ++k) row(y, i)[k] += row(table, i % table.rows)[k];
    }
  }

  void add_parts(std::span<const Matrix> parts, Matrix y) override {
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t k = 0; k < y.cols; ++k) {
        double sum = 0;
        for (const Matrix& part : parts) sum += static_cast<double>(row(part, i)[k]);
        row(y, i)[k] = static_cast<float>(static_cast<double>(row(y, i)[k]) + sum);
      }
    }
  }

  void copy(Matrix from, Matrix to) override {
    HS_CHECK_EQ(from.rows, to.rows);
    HS_CHECK_EQ(from.cols, to.cols);
    for (int64_t i = 0; i < to.rows; ++i) std::copy_n(row(from, i), to.cols, row(to, i));
  }

  // Greedy rows only: what random draws must be is proven by the tests of the sampling kernel.
  void sample(Matrix logits, int64_t vocab, std::span<const SamplingRow> rows,
              std::span<SampledToken> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      HS_CHECK(rows[i].temperature == 0);
      const float* scores = row(logits, static_cast<int64_t>(i));
      out[i] = {};
      out[i].id = static_cast<int32_t>(std::max_element(scores, scores + vocab) - scores);
    }
  }

 private:
  static float* row(Matrix m, int64_t i) { return static_cast<float*>(m.data) + i * m.stride; }
  static double square(double x) { return x * x; }

  static double apply(Epilogue epilogue, double x) {
    switch (epilogue) {
      case Epilogue::kNone:
        return x;
      case Epilogue::kGeluErf:
        return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
      case Epilogue::kGeluTanh:
        return 0.5 * x *
               (1.0 +
                std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
      case Epilogue::kQuickGelu:
        return x / (1.0 + std::exp(-1.702 * x));
      case Epilogue::kSilu:
        return x / (1.0 + std::exp(-x));
      case Epilogue::kRelu:
        return std::max(x, 0.0);
    }
    return x;
  }

  template <typename Key, typename Value>
  static void attend(const float* q, int64_t n, int64_t d, float scale, const Key& key,
                     const Value& value, float* out) {
    std::vector<double> weights(static_cast<size_t>(n));
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < n; ++t) {
      double dot = 0;
      for (int64_t e = 0; e < d; ++e)
        dot += static_cast<double>(q[e]) * static_cast<double>(key(t, e));
      weights[static_cast<size_t>(t)] = dot * static_cast<double>(scale);
      top = std::max(top, weights[static_cast<size_t>(t)]);
    }
    double total = 0;
    for (double& w : weights) total += w = std::exp(w - top);
    std::vector<double> sums(static_cast<size_t>(d));
    for (int64_t t = 0; t < n; ++t) {
      for (int64_t e = 0; e < d; ++e) {
        sums[static_cast<size_t>(e)] +=
            weights[static_cast<size_t>(t)] / total * static_cast<double>(value(t, e));
      }
    }
    for (int64_t e = 0; e < d; ++e) out[e] = static_cast<float>(sums[static_cast<size_t>(e)]);
  }
};

class ReferenceDevice final : public HostDevice {
 public:
  DeviceId id() const override { return {}; }
  std::string description() const override { return "plain loops with double sums, for tests"; }
  DType activation_dtype() const override { return DType::kF32; }
  Ops& ops() override { return ops_; }

  Result<Buffer> allocate(size_t bytes) override {
    ++n_allocations_;
    const size_t padded = std::max<size_t>(64, (bytes + 63) / 64 * 64);
    void* data = ::operator new(padded, std::align_val_t{64});
    std::memset(data, 0, padded);
    return Buffer({}, data, bytes,
                  [](void* p, size_t) { ::operator delete(p, std::align_val_t{64}); });
  }

  Result<OwnedWeight> pack_weight(std::span<const WeightPart> parts, int64_t in_dim,
                                  DType dtype) override {
    int64_t out_dim = 0;
    for (const auto& part : parts) out_dim += part.n_rows;
    auto buffer = allocate(static_cast<size_t>(out_dim * in_dim) * sizeof(float));
    if (!buffer) return std::unexpected(buffer.error());
    auto* to = buffer->as<float>();
    for (const auto& part : parts) {
      for (int64_t i = 0; i < part.n_rows * in_dim; ++i) {
        const float value = read_number(part.data, part.dtype, i);
        *to++ = dtype == DType::kBF16 ? from_bf16(to_bf16(value)) : value;
      }
    }
    OwnedWeight weight{std::move(*buffer), {}};
    weight.packed = {dtype, out_dim, in_dim, weight.buffer.data()};
    return weight;
  }

  int64_t n_allocations() const { return n_allocations_; }

 private:
  ReferenceOps ops_;
  int64_t n_allocations_ = 0;
};

}  // namespace hs::test
