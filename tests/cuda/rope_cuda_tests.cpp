// Proves rotary positions and the KV append on the emulated GPU against float64: one, two and three
// axes, head widths, grouped heads, dtypes; cache slots that nobody named stay as they were.
#include <numeric>

#include "cuda/cuda_testing.h"
#include "kernels/rope_cuda.h"

namespace hs::test {
namespace {

constexpr int64_t kPositions = 50;

struct Angles {
  int32_t half, n_axes;
  std::vector<int32_t> sections;
  std::vector<float> cos, sin;
  std::vector<int32_t> positions;  // (n_axes, n_rows)
  int64_t n_rows;

  Angles(int32_t half_head, int32_t axes, int64_t rows, uint32_t seed)
      : half(half_head), n_axes(axes), sections(3), n_rows(rows) {
    const int32_t first = axes == 1 ? 0 : half / axes;
    if (axes > 1) sections[0] = first;
    if (axes == 2) sections[1] = half - first;
    if (axes == 3) {
      sections[1] = (half - first) / 2;
      sections[2] = half - first - sections[1];
    }
    std::mt19937 engine(seed);
    for (int64_t i = 0; i < kPositions * half; ++i) {
      const double angle = std::uniform_real_distribution<double>(0, 6)(engine);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
    for (int64_t i = 0; i < axes * rows; ++i) {
      positions.push_back(static_cast<int32_t>(engine() % kPositions));
    }
  }
  size_t entry(int64_t row, int32_t i) const {
    int32_t axis = 0, end = sections[0];
    while (n_axes > 1 && i >= end) end += sections[static_cast<size_t>(++axis)];
    const int32_t position = positions[static_cast<size_t>(axis * n_rows + row)];
    return static_cast<size_t>(position * half + i);
  }
  // The head (2 half values) of a row, rotated.
  std::vector<double> rotated(int64_t row, const float* x) const {
    std::vector<double> y(static_cast<size_t>(2 * half));
    for (int32_t i = 0; i < half; ++i) {
      const double c = double{cos[entry(row, i)]}, s = double{sin[entry(row, i)]};
      y[static_cast<size_t>(i)] = x[i] * c - x[i + half] * s;
      y[static_cast<size_t>(i + half)] = x[i + half] * c + x[i] * s;
    }
    return y;
  }
};

struct AppendCase {
  DType dtype;
  int32_t d_head, n_heads, n_kv, n_axes;
};

void check_append(const AppendCase& c) {
  constexpr int64_t kTokens = 4, kBlocks = 3;
  const Angles angles(c.d_head / 2, c.n_axes, kTokens, 31);
  const KvLayout layout{
      .dtype = c.dtype, .block_size = 4, .n_kv_heads = c.n_kv, .d_head = c.d_head};
  const int64_t width = (c.n_heads + 2 * c.n_kv) * c.d_head, stride = width + 8;
  const Values qkv(c.dtype, random_floats(static_cast<size_t>(kTokens * stride), 32));
  const Values kv(c.dtype,
                  std::vector<float>(static_cast<size_t>(kBlocks * layout.block_stride()), 96.0F));
  const std::vector<float> before = qkv.get();
  const std::vector<int64_t> slots = {9, 2, -1, 4};  // the third is not stored
  const DeviceArray<float> cos(angles.cos), sin(angles.sin);
  const DeviceArray<int32_t> positions(angles.positions);
  const DeviceArray<int64_t> device_slots(slots);
  cuda::RopeAppendParams p{.dtype = c.dtype,
                           .qkv = qkv.data(),
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .positions = positions.data(),
                           .slots = device_slots.data(),
                           .kv = kv.data(),
                           .layout = layout,
                           .n_tokens = kTokens,
                           .qkv_stride = stride,
                           .n_heads = c.n_heads,
                           .n_axes = c.n_axes};
  std::copy(angles.sections.begin(), angles.sections.end(), p.sections);
  BOOST_TEST(cuda::rope_append(p, nullptr) == cudaSuccess);

  std::vector<double> want_qkv(before.begin(), before.end()), want_kv(kv.size(), 96.0);
  for (int64_t t = 0; t < kTokens; ++t) {
    const float* row = before.data() + t * stride;
    const int64_t slot = slots[static_cast<size_t>(t)];
    for (int32_t h = 0; h < c.n_heads; ++h) {
      const auto head = angles.rotated(t, row + h * c.d_head);
      std::copy(head.begin(), head.end(), want_qkv.begin() + t * stride + h * c.d_head);
    }
    for (int32_t h = 0; slot >= 0 && h < c.n_kv; ++h) {
      const float* k = row + (c.n_heads + h) * c.d_head;
      const float* v = k + c.n_kv * c.d_head;
      const auto key = angles.rotated(t, k);
      const auto in_block = static_cast<int32_t>(slot % 4);
      std::copy(key.begin(), key.end(), want_kv.begin() + layout.key_index(slot / 4, h, in_block));
      std::copy(v, v + c.d_head, want_kv.begin() + layout.value_index(slot / 4, h, in_block));
    }
  }
  const auto what = std::string(dtype_name(c.dtype)) + " d_head " + std::to_string(c.d_head);
  BOOST_TEST(error_share(c.dtype, qkv.get(), want_qkv, 1e-6) <= 1, what);
  BOOST_TEST(error_share(c.dtype, kv.get(), want_kv, 1e-6) <= 1, what);
  BOOST_TEST(kv.intact());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rope_cuda_tests)

BOOST_AUTO_TEST_CASE(append_rotates_q_and_k_and_fills_the_named_slots) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      check_append({dtype, 32, 6, 2, 1});
      check_append({dtype, 128, 7, 1, 3});
      check_append({dtype, 80, 2, 2, 3});
      check_append({dtype, 6, 3, 3, 1});
      check_append({dtype, 256, 1, 1, 1});
    }
  });
}

BOOST_AUTO_TEST_CASE(rotation_alone_matches_float64_on_one_to_three_axes) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const int32_t d : {4, 64, 80}) {
        for (const int32_t n_axes : {1, 2, 3}) {
          constexpr int64_t kRows = 5;
          constexpr int32_t kHeads = 3;
          if (d / 2 < n_axes) continue;
          const int64_t stride = kHeads * d + 16;
          const Angles angles(d / 2, n_axes, kRows, 33);
          const Values x(dtype, random_floats(static_cast<size_t>(kRows * stride), 34));
          const std::vector<float> before = x.get();
          const DeviceArray<float> cos(angles.cos), sin(angles.sin);
          const DeviceArray<int32_t> positions(angles.positions);
          cuda::RopeRotateParams p{.dtype = dtype,
                                   .x = x.data(),
                                   .cos = cos.data(),
                                   .sin = sin.data(),
                                   .positions = positions.data(),
                                   .n_rows = kRows,
                                   .x_stride = stride,
                                   .n_heads = kHeads,
                                   .d_head = d,
                                   .n_axes = n_axes};
          std::copy(angles.sections.begin(), angles.sections.end(), p.sections);
          BOOST_TEST(cuda::rope_rotate(p, nullptr) == cudaSuccess);
          std::vector<double> wanted(before.begin(), before.end());
          for (int64_t r = 0; r < kRows; ++r) {
            for (int32_t h = 0; h < kHeads; ++h) {
              const auto head = angles.rotated(r, before.data() + r * stride + h * d);
              std::copy(head.begin(), head.end(), wanted.begin() + r * stride + h * d);
            }
          }
          BOOST_TEST(error_share(dtype, x.get(), wanted, 1e-6) <= 1, "d_head " << d);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  cuda::RopeRotateParams p{.n_rows = 0, .n_heads = 1, .d_head = 64};
  BOOST_TEST(cuda::rope_rotate(p, nullptr) == cudaSuccess);
  p.d_head = 63;
  BOOST_TEST(cuda::rope_rotate(p, nullptr) == cudaErrorInvalidValue);
  p.d_head = 64;
  p.n_axes = 3;  // whose sections are empty
  BOOST_TEST(cuda::rope_rotate(p, nullptr) == cudaErrorInvalidValue);
  cuda::RopeAppendParams q;
  q.dtype = DType::kF16;
  q.n_heads = 1;
  q.layout = {.dtype = DType::kBF16, .n_kv_heads = 1, .d_head = 64};
  BOOST_TEST(cuda::rope_append(q, nullptr) == cudaErrorInvalidValue);
  q.layout.dtype = DType::kF16;
  BOOST_TEST(cuda::rope_append(q, nullptr) == cudaSuccess);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
