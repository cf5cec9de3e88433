// Proves rotation of q and k and the append to the paged cache: one axis and M-RoPE, float32 and
// bfloat16; and the rotation alone, on two axes as vision towers have them.
#include "kernels/op_testing.h"
#include "kernels/rope.h"

namespace hs::test {
namespace {

constexpr int32_t kHeads = 6, kKvHeads = 2, kTokens = 11, kPositions = 40, kBlocks = 5;

struct Case {
  KvLayout layout;
  int32_t n_axes;
  std::vector<float> cos, sin, qkv;
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  int32_t sections[3];

  Case(int32_t d, DType dtype, int32_t block_size, int32_t axes) : n_axes(axes) {
    layout = {dtype, block_size, kKvHeads, d};
    const int32_t half = d / 2;
    sections[0] = half / 4;
    sections[1] = (half - sections[0]) / 2;
    sections[2] = half - sections[0] - sections[1];
    cos = random_floats(static_cast<size_t>(kPositions * half), 1, -1, 1);
    sin = random_floats(static_cast<size_t>(kPositions * half), 2, -1, 1);
    qkv = random_floats(static_cast<size_t>(kTokens * (kHeads + 2 * kKvHeads) * d), 3);
    for (int i = 0; i < axes * kTokens; ++i) positions.push_back((i * 13) % kPositions);
    // Tokens of three sequences, so neighbours lie in different blocks.
    for (int i = 0; i < kTokens; ++i) slots.push_back((i * 7) % (kBlocks * block_size));
  }
  int axis_of(int32_t frequency) const {
    if (n_axes == 1 || frequency < sections[0]) return 0;
    return frequency < sections[0] + sections[1] ? 1 : 2;
  }
  // Head h of a token, rotated, in float64.
  std::vector<double> rotated(int token, int h) const {
    const int32_t d = layout.d_head, half = d / 2;
    const float* x = qkv.data() + (token * (kHeads + 2 * kKvHeads) + h) * d;
    std::vector<double> y(static_cast<size_t>(d));
    for (int32_t i = 0; i < half; ++i) {
      const int32_t p = positions[static_cast<size_t>(axis_of(i) * kTokens + token)];
      const double c = cos[static_cast<size_t>(p * half + i)],
                   s = sin[static_cast<size_t>(p * half + i)];
      y[static_cast<size_t>(i)] = x[i] * c - x[i + half] * s;
      y[static_cast<size_t>(i + half)] = x[i + half] * c + x[i] * s;
    }
    return y;
  }
};

float cache_at(const std::vector<std::byte>& cache, DType dtype, int64_t index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(cache.data())[index];
  return from_bf16(reinterpret_cast<const uint16_t*>(cache.data())[index]);
}

void check_case(const Case& c, Team& team) {
  const int32_t d = c.layout.d_head;
  const bool narrow = c.layout.dtype == DType::kBF16;
  std::vector<std::byte> cache(c.layout.block_bytes() * kBlocks, std::byte{0});
  std::vector<float> qkv = c.qkv;
  rope_append_cpu({qkv.data(),
                   c.cos.data(),
                   c.sin.data(),
                   c.positions.data(),
                   c.slots.data(),
                   cache.data(),
                   c.layout,
                   kTokens,
                   kHeads,
                   c.n_axes,
                   {c.sections[0], c.sections[1], c.sections[2]}},
                  team);
  double worst_q = 0, worst_k = 0;
  int wrong_v = 0;
  for (int t = 0; t < kTokens; ++t) {
    const float* row = qkv.data() + t * (kHeads + 2 * kKvHeads) * d;
    const int64_t slot = c.slots[static_cast<size_t>(t)];
    const int64_t block = slot / c.layout.block_size;
    const auto in_block = static_cast<int32_t>(slot % c.layout.block_size);
    for (int h = 0; h < kHeads + kKvHeads; ++h) {
      const auto want = c.rotated(t, h);
      for (int i = 0; i < d; ++i) {
        const double w = want[static_cast<size_t>(i)];
        if (h < kHeads) {
          worst_q = std::max(worst_q, std::abs(row[h * d + i] - w));
        } else {
          const float k =
              cache_at(cache, c.layout.dtype, c.layout.key_index(block, h - kHeads, in_block) + i);
          worst_k = std::max(worst_k, std::abs(k - w) / (narrow ? 1 + std::abs(w) : 1));
        }
      }
    }
    for (int h = 0; h < kKvHeads; ++h) {
      for (int i = 0; i < d; ++i) {
        const float v = row[(kHeads + kKvHeads + h) * d + i];
        const float got =
            cache_at(cache, c.layout.dtype, c.layout.value_index(block, h, in_block) + i);
        wrong_v += got != (narrow ? from_bf16(to_bf16(v)) : v);
      }
    }
  }
  BOOST_TEST(worst_q < 1e-6);
  BOOST_TEST(worst_k < (narrow ? 1.0 / 256 : 1e-6));
  BOOST_TEST(wrong_v == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rope_tests)

BOOST_AUTO_TEST_CASE(q_is_rotated_in_place_and_k_and_v_reach_their_slots) {
  at_every_level([](Team& team) {
    for (int32_t d : {4, 12, 32, 64, 80, 128, 256}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        BOOST_TEST_CONTEXT("d_head " << d) {
          check_case(Case(d, dtype, 16, 1), team);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(each_frequency_takes_the_position_of_its_axis) {
  at_every_level([](Team& team) {
    for (int32_t d : {16, 80, 128}) check_case(Case(d, DType::kF32, 5, 3), team);
  });
}

BOOST_AUTO_TEST_CASE(slots_that_no_token_takes_are_left_alone) {
  at_every_level([](Team& team) {
    const Case c(8, DType::kF32, 4, 1);
    std::vector<float> cache(static_cast<size_t>(c.layout.block_stride()) * kBlocks, 7.0F);
    std::vector<float> qkv = c.qkv;
    rope_append_cpu({qkv.data(),
                     c.cos.data(),
                     c.sin.data(),
                     c.positions.data(),
                     c.slots.data(),
                     cache.data(),
                     c.layout,
                     kTokens,
                     kHeads,
                     1,
                     {}},
                    team);
    int64_t untouched = 0;
    for (float v : cache) untouched += v == 7.0F;
    BOOST_TEST(untouched == (kBlocks * 4 - kTokens) * 2 * kKvHeads * 8);
  });
}

BOOST_AUTO_TEST_CASE(heads_of_strided_rows_are_rotated_in_place_and_nothing_else) {
  constexpr int32_t kRows = 70;
  at_every_level([](Team& team) {
    for (int32_t axes : {1, 2, 3}) {
      for (int32_t d : {4, 12, 40, 80, 128, 256}) {
        const int32_t half = d / 2, n_heads = 3, stride = (n_heads + 1) * d;
        int32_t sections[3] = {half, 0, 0};
        if (axes == 2) sections[0] = sections[1] = half / 2;
        if (axes == 3) {
          sections[0] = half / 3;
          sections[1] = 0;
          sections[2] = half - sections[0];
        }
        const auto cos = random_floats(static_cast<size_t>(kPositions * half), 1, -1, 1);
        const auto sin = random_floats(static_cast<size_t>(kPositions * half), 2, -1, 1);
        const auto before = random_floats(static_cast<size_t>(kRows * stride), 3);
        std::vector<int32_t> positions;
        for (int i = 0; i < axes * kRows; ++i) positions.push_back((i * 13) % kPositions);
        auto x = before;
        rope_rotate_cpu({.x = x.data(),
                         .cos = cos.data(),
                         .sin = sin.data(),
                         .positions = positions.data(),
                         .n_rows = kRows,
                         .x_stride = stride,
                         .n_heads = n_heads,
                         .d_head = d,
                         .n_axes = axes,
                         .sections = {sections[0], sections[1], sections[2]}},
                        team);
        std::vector<double> want(before.begin(), before.end());
        for (int32_t row = 0; row < kRows; ++row) {
          for (int32_t i = 0; i < half; ++i) {
            const int axis = i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
            const int32_t p = positions[static_cast<size_t>(axis * kRows + row)];
            const double c = cos[static_cast<size_t>(p * half + i)];
            const double s = sin[static_cast<size_t>(p * half + i)];
            for (int32_t h = 0; h < n_heads; ++h) {
              const auto at = static_cast<size_t>(row * stride + h * d + i);
              const auto other = at + static_cast<size_t>(half);
              want[at] = before[at] * c - before[other] * s;
              want[other] = before[other] * c + before[at] * s;
            }
          }
        }
        BOOST_TEST(distance(x, want) < 1e-6, "axes " << axes << ", d_head " << d);
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
