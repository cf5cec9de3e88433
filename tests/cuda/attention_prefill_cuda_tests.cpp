// Proves tensor-core attention on the emulated GPU against float64: causal over the paged cache and
// bidirectional in packed segments; head widths, grouped heads, dtypes, lengths around tiles; that
// a prompt's rows do not depend on how it was cut into chunks.
#include "cuda/attention_testing.h"
#include "kernels/attention_cuda.h"

namespace hs::test {
namespace {

constexpr float kScale = 0.15F;

// What rounding the weights to dtype may cost for values within +-2.
double tolerance(DType dtype) {
  return dtype == DType::kBF16 ? 5e-3 : 7e-4;
}

struct PagedCase {
  DType dtype;
  int32_t d_head, n_heads, n_kv;
  std::vector<int32_t> query_lens, context_lens;
  int32_t block_size = 16;
};

struct Paged {
  PagedCache cache;
  std::vector<int32_t> cu;
  int64_t stride;
  Values q, out;
  DeviceArray<int32_t> device_cu, lens;
  cuda::PagedAttentionParams params;

  explicit Paged(const PagedCase& c)
      : cache({.dtype = c.dtype,
               .block_size = c.block_size,
               .n_kv_heads = c.n_kv,
               .d_head = c.d_head},
              c.context_lens, 61),
        cu(starts(c.query_lens)),
        stride(int64_t{c.n_heads} * c.d_head + 8),
        q(c.dtype, random_floats(static_cast<size_t>(cu.back() * stride), 62)),
        out(c.dtype, std::vector<float>(q.size(), 96.0F)),
        device_cu(cu),
        lens(c.context_lens) {
    params.dtype = c.dtype;
    params.q = q.data();
    params.kv = cache.values.data();
    params.layout = cache.layout;
    params.block_tables = cache.device_tables.data();
    params.cu_query = device_cu.data();
    params.context_lens = lens.data();
    params.out = out.data();
    params.n_tokens = cu.back();
    params.n_seqs = static_cast<int64_t>(c.query_lens.size());
    params.q_stride = params.out_stride = stride;
    params.block_table_stride = cache.stride;
    params.n_heads = c.n_heads;
    params.scale = kScale;
  }
  static std::vector<int32_t> starts(const std::vector<int32_t>& lens) {
    std::vector<int32_t> cu = {0};
    for (const int32_t len : lens) cu.push_back(cu.back() + len);
    return cu;
  }
};

void check_paged(const PagedCase& c) {
  const Paged s(c);
  BOOST_TEST(cuda::paged_attention(s.params, nullptr) == cudaSuccess);
  std::vector<double> wanted(s.out.size(), 96.0);
  const std::vector<float> q = s.q.get();
  for (size_t seq = 0; seq < c.query_lens.size(); ++seq) {
    const int32_t before = c.context_lens[seq] - c.query_lens[seq];
    for (int32_t i = 0; i < c.query_lens[seq]; ++i) {
      for (int32_t h = 0; h < c.n_heads; ++h) {
        const int64_t at = (s.cu[seq] + i) * s.stride + h * c.d_head;
        const int32_t kv = h / (c.n_heads / c.n_kv);
        const auto row = attend(
            q.data() + at, before + i + 1, c.d_head, double{kScale},
            [&](int64_t k) { return s.cache.key(seq, k, kv); },
            [&](int64_t k) { return s.cache.value(seq, k, kv); });
        std::copy(row.begin(), row.end(), wanted.begin() + at);
      }
    }
  }
  BOOST_TEST(error_share(c.dtype, s.out.get(), wanted, tolerance(c.dtype)) <= 1,
             dtype_name(c.dtype) << " d_head " << c.d_head);
  BOOST_TEST(s.out.intact());
}

struct PackedCase {
  DType dtype;
  int32_t d_head, n_heads;
  std::vector<int32_t> lens;
};

void check_packed(const PackedCase& c) {
  const std::vector<int32_t> cu = Paged::starts(c.lens);
  const int64_t width = int64_t{c.n_heads} * c.d_head, stride = 3 * width + 8;
  const Values qkv(c.dtype, random_floats(static_cast<size_t>(cu.back() * stride), 63));
  const Values out(c.dtype,
                   std::vector<float>(static_cast<size_t>(cu.back() * (width + 2)), 96.0F));
  const DeviceArray<int32_t> device_cu(cu);
  const auto* q = static_cast<const uint16_t*>(qkv.data());
  BOOST_TEST(cuda::packed_attention({.dtype = c.dtype,
                                     .q = q,
                                     .k = q + width,
                                     .v = q + 2 * width,
                                     .cu_seqlens = device_cu.data(),
                                     .out = out.data(),
                                     .n_tokens = cu.back(),
                                     .n_segments = static_cast<int64_t>(c.lens.size()),
                                     .qkv_stride = stride,
                                     .out_stride = width + 2,
                                     .n_heads = c.n_heads,
                                     .d_head = c.d_head,
                                     .scale = kScale},
                                    nullptr) == cudaSuccess);
  std::vector<double> wanted(out.size(), 96.0);
  const std::vector<float> x = qkv.get();
  for (size_t seg = 0; seg < c.lens.size(); ++seg) {
    for (int32_t i = 0; i < c.lens[seg]; ++i) {
      for (int32_t h = 0; h < c.n_heads; ++h) {
        const float* head = x.data() + cu[seg] * stride + h * c.d_head;
        const auto row = attend(
            head + i * stride, c.lens[seg], c.d_head, double{kScale},
            [&](int64_t k) { return head + width + k * stride; },
            [&](int64_t k) { return head + 2 * width + k * stride; });
        std::copy(row.begin(), row.end(),
                  wanted.begin() + (cu[seg] + i) * (width + 2) + h * c.d_head);
      }
    }
  }
  BOOST_TEST(error_share(c.dtype, out.get(), wanted, tolerance(c.dtype)) <= 1,
             dtype_name(c.dtype) << " d_head " << c.d_head);
  BOOST_TEST(out.intact());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_prefill_cuda_tests)

BOOST_AUTO_TEST_CASE(causal_attention_over_the_cache_matches_float64) {
  under_every_schedule([] {
    for (const DType dtype : kHalfDTypes) {
      check_paged({dtype, 32, 3, 1, {70, 5}, {70, 5}});
      check_paged({dtype, 64, 2, 2, {64, 1, 65}, {64, 130, 100}});
      check_paged({dtype, 80, 2, 1, {17}, {90}});
      check_paged({dtype, 96, 1, 1, {33}, {33}, 8});
      check_paged({dtype, 128, 7, 1, {40}, {129}});
    }
  });
}

BOOST_AUTO_TEST_CASE(heads_of_other_widths_are_computed_in_the_next_wider_tile) {
  under_every_schedule([] {
    check_paged({DType::kBF16, 8, 2, 1, {9, 66}, {70, 66}});
    check_paged({DType::kF16, 40, 2, 2, {65}, {65}});
    check_packed({DType::kBF16, 16, 3, {70, 2}});
    check_packed({DType::kF16, 72, 2, {65}});
    check_packed({DType::kBF16, 120, 1, {20}});
  });
}

BOOST_AUTO_TEST_CASE(sequences_may_begin_behind_others_that_are_not_asked_for) {
  const PagedCase all{DType::kBF16, 64, 2, 1, {70, 3, 65}, {70, 40, 80}};
  const Paged whole(all), rest(all);
  BOOST_TEST(cuda::paged_attention(whole.params, nullptr) == cudaSuccess);
  auto p = rest.params;
  p.cu_query += 1;
  p.context_lens += 1;
  p.block_tables += p.block_table_stride;
  p.n_seqs -= 1;
  BOOST_TEST(cuda::paged_attention(p, nullptr) == cudaSuccess);
  std::vector<float> wanted = whole.out.get();
  std::fill(wanted.begin(), wanted.begin() + 70 * p.out_stride, 96.0F);
  BOOST_TEST(rest.out.get() == wanted);
}

BOOST_AUTO_TEST_CASE(bidirectional_attention_in_segments_matches_float64) {
  under_every_schedule([] {
    for (const DType dtype : kHalfDTypes) {
      check_packed({dtype, 32, 3, {64, 64, 16}});
      check_packed({dtype, 64, 2, {130, 1, 63}});
      check_packed({dtype, 80, 2, {100, 65}});
      check_packed({dtype, 96, 1, {70}});
      check_packed({dtype, 128, 2, {64, 3}});
    }
  });
}

BOOST_AUTO_TEST_CASE(many_small_segments_find_their_tiles) {
  std::vector<int32_t> lens;
  for (int32_t i = 0; i < 60; ++i) lens.push_back(i * 7 % 23 + (i % 9 == 0 ? 60 : 0));
  check_packed({DType::kBF16, 32, 1, lens});  // some are empty
}

BOOST_AUTO_TEST_CASE(a_prompts_rows_have_the_same_bits_however_it_was_cut) {
  under_every_schedule([] {
    const PagedCase whole_case{DType::kBF16, 64, 2, 1, {150}, {150}};
    const Paged whole(whole_case);
    BOOST_TEST(cuda::paged_attention(whole.params, nullptr) == cudaSuccess);
    const std::vector<float> wanted = whole.out.get();
    const Paged cut(whole_case);  // the same cache
    int32_t first = 0;
    for (const int32_t n : {1, 63, 64, 22}) {
      const DeviceArray<int32_t> cu(std::vector<int32_t>{0, n}),
          lens(std::vector<int32_t>{first + n});
      auto p = cut.params;
      p.q = static_cast<const uint16_t*>(p.q) + first * p.q_stride;
      p.out = static_cast<uint16_t*>(p.out) + first * p.out_stride;
      p.cu_query = cu.data();
      p.context_lens = lens.data();
      p.n_tokens = n;
      BOOST_TEST(cuda::paged_attention(p, nullptr) == cudaSuccess);
      first += n;
    }
    BOOST_TEST(cut.out.get() == wanted);
  });
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  const Paged s({DType::kBF16, 64, 2, 1, {5}, {5}});
  auto p = s.params;
  p.n_tokens = 0;
  p.n_seqs = 0;
  BOOST_TEST(cuda::paged_attention(p, nullptr) == cudaSuccess);
  p = s.params;
  p.dtype = p.layout.dtype = DType::kF32;
  BOOST_TEST(cuda::paged_attention(p, nullptr) == cudaErrorInvalidValue);
  p = s.params;
  p.layout.d_head = 68;
  BOOST_TEST(cuda::paged_attention(p, nullptr) == cudaErrorInvalidValue);
  p = s.params;
  p.q_stride += 1;
  BOOST_TEST(cuda::paged_attention(p, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cuda::packed_attention({.d_head = 64}, nullptr) == cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
