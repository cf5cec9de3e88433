// Proves decode attention on the emulated GPU against float64: head widths, grouped heads, dtypes,
// context lengths around chunks and blocks; that a row depends on itself alone; and empty contexts.
#include "cuda/attention_testing.h"
#include "kernels/attention_cuda.h"

namespace hs::test {
namespace {

constexpr float kScale = 0.2F;

struct Case {
  DType dtype;
  int32_t d_head, n_heads, n_kv;
  std::vector<int32_t> lens;
  int32_t chunk_tokens, n_chunks_max;
  int32_t block_size = 16;
};

struct Setup {
  PagedCache cache;
  int64_t stride;
  Values q, out;
  DeviceArray<int32_t> lens;
  DeviceArray<float> workspace;
  cuda::DecodeAttentionParams params;

  explicit Setup(const Case& c)
      : cache({.dtype = c.dtype,
               .block_size = c.block_size,
               .n_kv_heads = c.n_kv,
               .d_head = c.d_head},
              c.lens, 51),
        stride(int64_t{c.n_heads} * c.d_head + 8),
        q(c.dtype, random_floats(c.lens.size() * static_cast<size_t>(stride), 52)),
        out(c.dtype, std::vector<float>(c.lens.size() * static_cast<size_t>(stride), 96.0F)),
        lens(c.lens),
        workspace(c.lens.size() *
                  static_cast<size_t>(c.n_heads * c.n_chunks_max * (c.d_head + 2))) {
    params.dtype = c.dtype;
    params.q = q.data();
    params.kv = cache.values.data();
    params.layout = cache.layout;
    params.block_tables = cache.device_tables.data();
    params.context_lens = lens.data();
    params.out = out.data();
    params.n_seqs = static_cast<int64_t>(c.lens.size());
    params.q_stride = params.out_stride = stride;
    params.block_table_stride = cache.stride;
    params.n_heads = c.n_heads;
    params.scale = kScale;
    params.chunk_tokens = c.chunk_tokens;
    params.n_chunks_max = c.n_chunks_max;
    params.workspace = workspace.data();
  }
};

std::vector<double> reference(const Case& c, const Setup& s) {
  std::vector<double> wanted(s.out.size(), 96.0);
  const std::vector<float> q = s.q.get();
  for (size_t seq = 0; seq < c.lens.size(); ++seq) {
    for (int32_t h = 0; h < c.n_heads; ++h) {
      const int64_t at = static_cast<int64_t>(seq) * s.stride + h * c.d_head;
      const int32_t kv = h / (c.n_heads / c.n_kv);
      if (c.lens[seq] == 0) {
        std::fill_n(wanted.begin() + at, c.d_head, 0.0);
        continue;
      }
      const auto row = attend(
          q.data() + at, c.lens[seq], c.d_head, double{kScale},
          [&](int64_t i) { return s.cache.key(seq, i, kv); },
          [&](int64_t i) { return s.cache.value(seq, i, kv); });
      std::copy(row.begin(), row.end(), wanted.begin() + at);
    }
  }
  return wanted;
}

void check(const Case& c) {
  const Setup s(c);
  BOOST_TEST(cuda::decode_attention_workspace_bytes(s.params) <=
             s.workspace.size() * sizeof(float));
  BOOST_TEST(cuda::decode_attention(s.params, nullptr) == cudaSuccess);
  BOOST_TEST(
      error_share(c.dtype, s.out.get(), reference(c, s), 4e-6) <= 1,
      dtype_name(c.dtype) << " d_head " << c.d_head << " heads " << c.n_heads << "/" << c.n_kv);
  BOOST_TEST(s.out.intact());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_decode_cuda_tests)

BOOST_AUTO_TEST_CASE(matches_float64_for_every_dtype_head_width_and_group) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      check({dtype, 32, 6, 2, {37, 1}, 16, 3});
      check({dtype, 64, 2, 2, {100, 16, 15}, 1024, 1});
      check({dtype, 80, 5, 1, {70}, 32, 3});
      check({dtype, 128, 7, 1, {129, 64}, 64, 4});
      check({dtype, 128, 8, 1, {33}, 64, 1});
      check({dtype, 96, 18, 2, {40}, 64, 1});
      check({dtype, 8, 1, 1, {200}, 48, 5, 4});
    }
  });
}

BOOST_AUTO_TEST_CASE(contexts_that_end_at_chunk_and_block_borders_match_float64) {
  under_every_schedule([] {
    for (const int32_t n_chunks : {1, 5}) {
      check({DType::kBF16,
             64,
             4,
             2,
             {1, 31, 32, 33, 63, 64, 65, 160},
             n_chunks == 1 ? 160 : 32,
             n_chunks});
    }
  });
}

BOOST_AUTO_TEST_CASE(an_empty_context_gives_zeros) {
  under_every_schedule([] {
    check({DType::kBF16, 64, 4, 2, {0, 5}, 32, 1});
    check({DType::kF16, 64, 4, 2, {0, 5}, 32, 3});
  });
}

BOOST_AUTO_TEST_CASE(a_row_has_the_same_bits_alone_with_more_chunks_and_in_every_schedule) {
  std::vector<float> first;
  under_every_schedule([&] {
    const Setup s({DType::kF32, 64, 4, 2, {40, 90, 64}, 32, 3});
    BOOST_TEST(cuda::decode_attention(s.params, nullptr) == cudaSuccess);
    if (first.empty()) first = s.out.get();
    BOOST_TEST(s.out.get() == first);
  });
  const Setup roomy({DType::kF32, 64, 4, 2, {40, 90, 64}, 32, 9});
  BOOST_TEST(cuda::decode_attention(roomy.params, nullptr) == cudaSuccess);
  BOOST_TEST(roomy.out.get() == first);
  // Sequence 1 alone: of its table, length and rows each is the second one.
  const Setup alone({DType::kF32, 64, 4, 2, {40, 90, 64}, 32, 3});
  auto p = alone.params;
  p.n_seqs = 1;
  p.block_tables += p.block_table_stride;
  p.context_lens += 1;
  p.q = static_cast<const float*>(p.q) + p.q_stride;
  p.out = static_cast<float*>(p.out) + p.out_stride;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaSuccess);
  const auto out = alone.out.get();
  BOOST_TEST((std::vector<float>(out.begin() + alone.stride, out.begin() + 2 * alone.stride) ==
              std::vector<float>(first.begin() + alone.stride, first.begin() + 2 * alone.stride)));
  BOOST_TEST(out[0] == 96.0F);
}

BOOST_AUTO_TEST_CASE(a_context_of_one_chunk_has_the_same_bits_with_and_without_merging) {
  const Setup one({DType::kF32, 64, 4, 2, {30, 17}, 32, 1}),
      more({DType::kF32, 64, 4, 2, {30, 17}, 32, 4});
  BOOST_TEST(cuda::decode_attention(one.params, nullptr) == cudaSuccess);
  BOOST_TEST(cuda::decode_attention(more.params, nullptr) == cudaSuccess);
  BOOST_TEST(one.out.get() == more.out.get());
}

BOOST_AUTO_TEST_CASE(scores_far_apart_do_not_overflow) {
  const Case c{DType::kF32, 32, 1, 1, {50}, 16, 4};
  const Setup s(c);
  auto p = s.params;
  p.scale = 500;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaSuccess);
  for (const float v : s.out.get()) BOOST_TEST((std::abs(v) <= 2 || v == 96.0F));
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  const Setup s({DType::kBF16, 64, 4, 2, {5}, 32, 2});
  auto p = s.params;
  p.n_seqs = 0;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaSuccess);
  p = s.params;
  p.workspace = nullptr;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaErrorInvalidValue);
  p = s.params;
  p.n_heads = 3;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaErrorInvalidValue);
  p = s.params;
  p.layout.d_head = 60;  // not made of 16-byte pieces
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaErrorInvalidValue);
  p.layout.d_head = 136;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaErrorInvalidValue);
  p = s.params;
  p.layout.dtype = DType::kF16;
  BOOST_TEST(cuda::decode_attention(p, nullptr) == cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
