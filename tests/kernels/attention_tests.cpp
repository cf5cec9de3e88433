// Proves both attentions against float64 loops, and that a token's result has the same bits however
// its prompt is cut, whatever else is in the batch, and for any number of workers.
#include <numeric>

#include "kernels/attention.h"
#include "kernels/op_testing.h"

namespace hs::test {
namespace {

// Sequences with random q, k and v, whose keys and values lie in a paged cache with shuffled
// blocks. What no token wrote is NaN, so reading it shows.
struct Sequences {
  KvLayout layout;
  int32_t n_heads;
  std::vector<int32_t> lengths;
  std::vector<std::vector<float>> q, k, v;  // of each sequence, (length, heads, d)
  std::vector<std::byte> cache;
  std::vector<std::vector<int32_t>> blocks;  // of each sequence

  Sequences(KvLayout l, int32_t heads, std::vector<int32_t> lens, uint32_t seed = 5)
      : layout(l), n_heads(heads), lengths(std::move(lens)) {
    int32_t n_blocks = 0;
    for (int32_t n : lengths) n_blocks += (n + layout.block_size - 1) / layout.block_size;
    std::vector<int32_t> free(static_cast<size_t>(n_blocks));
    std::iota(free.begin(), free.end(), 0);
    std::mt19937 engine(seed);
    std::shuffle(free.begin(), free.end(), engine);
    cache.assign(layout.block_bytes() * static_cast<size_t>(n_blocks), std::byte{0xFF});
    for (size_t s = 0; s < lengths.size(); ++s) {
      const auto n = static_cast<size_t>(lengths[s]), d = static_cast<size_t>(layout.d_head);
      const auto kv_row = static_cast<size_t>(layout.n_kv_heads) * d;
      const auto seq_seed = seed + 10 * static_cast<uint32_t>(s);
      q.push_back(random_floats(n * static_cast<size_t>(n_heads) * d, seq_seed + 1));
      k.push_back(random_floats(n * kv_row, seq_seed + 2));
      v.push_back(random_floats(n * kv_row, seq_seed + 3));
      blocks.emplace_back();
      for (int32_t t = 0; t < lengths[s]; t += layout.block_size) {
        blocks.back().push_back(free.back());
        free.pop_back();
      }
      fill_cache(s);
    }
  }
  void fill_cache(size_t s) {
    for (int32_t t = 0; t < lengths[s]; ++t) {
      const int64_t block = blocks[s][static_cast<size_t>(t / layout.block_size)];
      for (int32_t h = 0; h < layout.n_kv_heads; ++h) {
        const auto from = static_cast<size_t>((t * layout.n_kv_heads + h) * layout.d_head);
        put(&k[s][from], layout.key_index(block, h, t % layout.block_size));
        put(&v[s][from], layout.value_index(block, h, t % layout.block_size));
      }
    }
  }
  // Stores a vector, and rounds the source too, so that the reference sees what the cache holds.
  void put(float* from, int64_t at) {
    for (int32_t i = 0; i < layout.d_head; ++i) {
      if (layout.dtype == DType::kF32) {
        reinterpret_cast<float*>(cache.data())[at + i] = from[i];
      } else {
        const uint16_t narrow = to_bf16(from[i]);
        reinterpret_cast<uint16_t*>(cache.data())[at + i] = narrow;
        from[i] = from_bf16(narrow);
      }
    }
  }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(layout.d_head)); }
};

// Tokens [begin, end) of sequence seq in one call.
struct Chunk {
  size_t seq;
  int32_t begin, end;
};

// One call over the chunks, in order; returns (tokens, heads * d).
std::vector<float> attend(const Sequences& c, const std::vector<Chunk>& chunks, Team& team) {
  const size_t row = static_cast<size_t>(c.n_heads * c.layout.d_head), stride = row + 24;
  std::vector<float> q;
  std::vector<int32_t> cu = {0}, context, tables;
  size_t width = 1;
  for (const auto& b : c.blocks) width = std::max(width, b.size());
  for (const Chunk& chunk : chunks) {
    for (auto t = static_cast<size_t>(chunk.begin); t < static_cast<size_t>(chunk.end); ++t) {
      const float* from = c.q[chunk.seq].data() + t * row;
      q.insert(q.end(), from, from + row);
      q.resize(q.size() + stride - row, NAN);
    }
    cu.push_back(cu.back() + chunk.end - chunk.begin);
    context.push_back(chunk.end);
    std::vector<int32_t> table = c.blocks[chunk.seq];
    table.resize(width, -1);
    tables.insert(tables.end(), table.begin(), table.end());
  }
  std::vector<float> out(static_cast<size_t>(cu.back()) * row, NAN);
  PagedAttentionParams p;
  p.q = q.data();
  p.kv = c.cache.data();
  p.layout = c.layout;
  p.block_tables = tables.data();
  p.cu_query = cu.data();
  p.context_lens = context.data();
  p.out = out.data();
  p.n_seqs = static_cast<int64_t>(chunks.size());
  p.q_stride = static_cast<int64_t>(stride);
  p.block_table_stride = static_cast<int32_t>(width);
  p.n_heads = c.n_heads;
  p.scale = c.scale();
  paged_attention_cpu(p, team);
  return out;
}

// softmax(q k^T scale) v for one row over n keys, rows of k and v `stride` apart.
std::vector<double> attend_row(const float* q, const float* k, const float* v, int64_t n,
                               int64_t stride, int64_t d, double scale) {
  std::vector<double> weight;
  double top = -HUGE_VAL, total = 0;
  for (int64_t j = 0; j < n; ++j) {
    double dot = 0;
    for (int64_t i = 0; i < d; ++i) dot += double{q[i]} * k[j * stride + i];
    weight.push_back(dot * scale);
    top = std::max(top, weight.back());
  }
  for (double& w : weight) total += w = std::exp(w - top);
  std::vector<double> out(static_cast<size_t>(d));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < d; ++i) {
      out[static_cast<size_t>(i)] += weight[static_cast<size_t>(j)] / total * v[j * stride + i];
    }
  }
  return out;
}

std::vector<double> reference(const Sequences& c, const std::vector<Chunk>& chunks) {
  const int64_t d = c.layout.d_head, group = c.n_heads / c.layout.n_kv_heads;
  const int64_t kv_row = c.layout.n_kv_heads * d;
  std::vector<double> out;
  for (const Chunk& chunk : chunks) {
    for (int64_t t = chunk.begin; t < chunk.end; ++t) {
      for (int64_t h = 0; h < c.n_heads; ++h) {
        const int64_t kv = h / group * d;
        const auto row =
            attend_row(c.q[chunk.seq].data() + (t * c.n_heads + h) * d, c.k[chunk.seq].data() + kv,
                       c.v[chunk.seq].data() + kv, t + 1, kv_row, d, double{c.scale()});
        out.insert(out.end(), row.begin(), row.end());
      }
    }
  }
  return out;
}

// The whole sequence, cut into chunks of `size` tokens, one call each.
std::vector<float> in_chunks(const Sequences& c, size_t seq, int32_t size, Team& team) {
  std::vector<float> all;
  for (int32_t t = 0; t < c.lengths[seq]; t += size) {
    const auto part = attend(c, {{seq, t, std::min(t + size, c.lengths[seq])}}, team);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

int64_t differing_bits(const std::vector<float>& a, const std::vector<float>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  int64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    n += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  }
  return n;
}

constexpr double kTolerance = 3e-6;  // values are within +-2

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_tests)

BOOST_AUTO_TEST_CASE(prefill_and_decode_match_float64_for_every_shape) {
  struct Shape {
    int32_t d, n_heads, n_kv_heads, block_size;
  };
  constexpr Shape kShapes[] = {{4, 1, 1, 1},     {12, 4, 2, 3},   {32, 4, 4, 16}, {64, 9, 3, 16},
                               {80, 2, 1, 7},    {128, 4, 4, 16}, {100, 8, 1, 5}, {256, 2, 2, 32},
                               {20, 120, 1, 16}, {64, 7, 1, 100}};
  at_every_level([&](Team& team) {
    for (const Shape& s : kShapes) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        const Sequences c({dtype, s.block_size, s.n_kv_heads, s.d}, s.n_heads, {70, 1, 131, 17});
        const std::vector<Chunk> chunks = {{0, 0, 70}, {1, 0, 1}, {2, 100, 131}, {3, 16, 17}};
        BOOST_TEST(distance(attend(c, chunks, team), reference(c, chunks)) < kTolerance,
                   "d_head " << s.d << ", heads " << s.n_heads << '/' << s.n_kv_heads);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(long_contexts_match_float64) {
  at_every_level([](Team& team) {
    const Sequences c({DType::kF32, 16, 1, 32}, 2, {2500, 513});
    const std::vector<Chunk> chunks = {{0, 2499, 2500}, {1, 509, 513}};
    BOOST_TEST(distance(attend(c, chunks, team), reference(c, chunks)) < kTolerance);
  });
}

BOOST_AUTO_TEST_CASE(large_scores_do_not_overflow) {
  at_every_level([](Team& team) {
    Sequences c({DType::kF32, 16, 1, 64}, 2, {150});
    for (float& x : c.q[0]) x *= 200;
    const std::vector<Chunk> chunks = {{0, 0, 150}};
    // Scores of several hundred carry an error of about 1e-4, and the weights with them.
    BOOST_TEST(distance(attend(c, chunks, team), reference(c, chunks)) < 2e-3);
  });
}

BOOST_AUTO_TEST_CASE(a_prompt_has_the_same_bits_however_it_is_cut) {
  at_every_level([](Team& team) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (const auto& [d, heads, kv_heads] : {std::tuple{32, 4, 4}, {64, 6, 2}, {80, 5, 1}}) {
        const Sequences c({dtype, 16, kv_heads, d}, heads, {700});
        const auto whole = attend(c, {{0, 0, 700}}, team);
        for (int32_t size : {1, 3, 16, 64, 511}) {
          BOOST_TEST(differing_bits(in_chunks(c, 0, size, team), whole) == 0, "chunks of " << size);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_sequence_has_the_same_bits_alone_and_in_a_batch) {
  at_every_level([](Team& team) {
    const Sequences c({DType::kF32, 16, 2, 64}, 6, {1300, 40, 90, 600, 7});
    const std::vector<Chunk> chunks = {
        {0, 1299, 1300}, {1, 0, 40}, {2, 85, 90}, {3, 0, 600}, {4, 6, 7}};
    const auto batch = attend(c, chunks, team);
    auto at = batch.begin();
    for (const Chunk& chunk : chunks) {
      const auto alone = attend(c, {chunk}, team);
      const std::vector<float> in_batch(at, at + static_cast<int64_t>(alone.size()));
      at += static_cast<int64_t>(alone.size());
      BOOST_TEST(differing_bits(alone, in_batch) == 0, "sequence " << chunk.seq);
    }
  });
}

BOOST_AUTO_TEST_CASE(any_number_of_workers_gives_the_same_bits) {
  const Sequences c({DType::kBF16, 16, 2, 32}, 4, {3000, 30});
  const std::vector<std::vector<Chunk>> calls = {
      {{0, 2999, 3000}}, {{0, 2990, 3000}, {1, 0, 30}}, {{0, 0, 3000}}};
  for (const auto& chunks : calls) {
    PlainTeam one(1);
    const auto alone = attend(c, chunks, one);
    for (int workers : {2, 3, 8}) {
      PlainTeam team(workers);
      BOOST_TEST(differing_bits(attend(c, chunks, team), alone) == 0, workers << " workers");
    }
  }
}

BOOST_AUTO_TEST_CASE(block_size_does_not_change_the_bits) {
  PlainTeam team(2);
  const Sequences small({DType::kF32, 3, 2, 64}, 4, {200}),
      large({DType::kF32, 128, 2, 64}, 4, {200});
  BOOST_TEST(
      differing_bits(attend(small, {{0, 0, 200}}, team), attend(large, {{0, 0, 200}}, team)) == 0);
}

BOOST_AUTO_TEST_CASE(sequences_without_query_tokens_and_empty_batches_are_no_work) {
  at_every_level([](Team& team) {
    const Sequences c({DType::kF32, 16, 1, 32}, 2, {20, 20});
    BOOST_TEST(attend(c, {}, team).empty());
    const std::vector<Chunk> chunks = {{0, 20, 20}, {1, 0, 20}, {0, 20, 20}};
    BOOST_TEST(differing_bits(attend(c, chunks, team), attend(c, {{1, 0, 20}}, team)) == 0);
  });
}

BOOST_AUTO_TEST_CASE(nan_in_a_query_reaches_its_own_row_and_no_other) {
  at_every_level([](Team& team) {
    Sequences c({DType::kF32, 16, 1, 32}, 1, {30});
    const auto clean = attend(c, {{0, 0, 30}}, team);
    c.q[0][10 * 32] = NAN;
    const auto dirty = attend(c, {{0, 0, 30}}, team);
    for (size_t t = 0; t < 30; ++t) {
      BOOST_TEST(std::isnan(dirty[t * 32]) == (t == 10));
      if (t != 10) BOOST_TEST(dirty[t * 32] == clean[t * 32]);
    }
  });
}

BOOST_AUTO_TEST_CASE(packed_segments_match_float64_and_do_not_see_each_other) {
  at_every_level([](Team& team) {
    for (int64_t d : {32, 64, 80, 128, 4}) {
      const int64_t heads = 3, stride = 3 * heads * d + 5;
      const std::vector<int32_t> cu = {0, 100, 101, 101, 150, 327};
      const auto x = random_floats(static_cast<size_t>(327 * stride), 9);
      std::vector<float> out(static_cast<size_t>(327 * heads * d), NAN);
      const float scale = 1 / std::sqrt(static_cast<float>(d));
      packed_attention_cpu({x.data(), x.data() + heads * d, x.data() + 2 * heads * d, cu.data(),
                            out.data(), 5, stride, 3, static_cast<int32_t>(d), scale},
                           team);
      std::vector<double> want;
      for (size_t s = 0; s + 1 < cu.size(); ++s) {
        for (int64_t t = cu[s]; t < cu[s + 1]; ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            const float* keys = x.data() + cu[s] * stride + heads * d + h * d;
            const auto row = attend_row(x.data() + t * stride + h * d, keys, keys + heads * d,
                                        cu[s + 1] - cu[s], stride, d, double{scale});
            want.insert(want.end(), row.begin(), row.end());
          }
        }
      }
      BOOST_TEST(distance(out, want) < kTolerance, "d_head " << d);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_packed_segment_has_the_same_bits_alone_and_in_a_batch) {
  at_every_level([](Team& team) {
    const int64_t d = 64, stride = 3 * d;
    const std::vector<int32_t> both = {0, 577, 600}, second = {577, 600};
    const auto x = random_floats(static_cast<size_t>(600 * stride), 9);
    std::vector<float> a(static_cast<size_t>(600 * d), 0), b(a.size(), 0);
    packed_attention_cpu(
        {x.data(), x.data() + d, x.data() + 2 * d, both.data(), a.data(), 2, stride, 1, 64, 0.125F},
        team);
    packed_attention_cpu({x.data(), x.data() + d, x.data() + 2 * d, second.data(), b.data(), 1,
                          stride, 1, 64, 0.125F},
                         team);
    a.erase(a.begin(), a.begin() + 577 * d);
    b.erase(b.begin(), b.begin() + 577 * d);
    BOOST_TEST(differing_bits(a, b) == 0);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
