// Proves sampling against a sort-based float64 reference and by chi-square; that a token depends on
// its row alone and is the same at every instruction-set level; and log-probabilities against
// float64.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/op_testing.h"
#include "kernels/philox.h"
#include "kernels/sampling.h"
#include "kernels/sampling_testing.h"

namespace hs::test {
namespace {

// Rows of many kinds: flat, peaked, with ties, with far outliers; all settings.
Batch random_batch(size_t n, int64_t vocab, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> share(0, 1);
  std::normal_distribution<float> normal;
  Batch batch(vocab, 3);
  for (size_t r = 0; r < n; ++r) {
    const float spread = std::array{0.1F, 1.0F, 3.0F, 20.0F}[engine() % 4];
    std::vector<float> x(static_cast<size_t>(vocab));
    for (float& v : x) v = spread * normal(engine);
    if (engine() % 3 == 0) {
      for (float& v : x) v = std::round(v);
    }
    if (engine() % 5 == 0) x[engine() % x.size()] = 1e30F;
    if (engine() % 5 == 0) x[engine() % x.size()] = -3e38F;
    SamplingRow row;
    row.temperature = std::array{0.0F, 0.2F, 0.7F, 1.0F, 1.0F, 2.5F}[engine() % 6];
    if (engine() % 2 == 0) row.top_p = std::array{0.0F, 0.1F, 0.5F, 0.9F, 0.99F}[engine() % 5];
    if (engine() % 2 == 0) row.top_k = std::array{-1, 1, 2, 5, 40, 1000000}[engine() % 6];
    if (engine() % 3 == 0) row.min_p = 0.3F * share(engine);
    row.seed = (uint64_t{engine()} << 32) | engine();
    row.choice = static_cast<uint32_t>(engine() % 4);
    row.position = static_cast<uint32_t>(engine() % 5000);
    batch.add(x, row);
  }
  return batch;
}

std::vector<int32_t> ids_of(const std::vector<SampledToken>& tokens) {
  std::vector<int32_t> ids;
  for (const SampledToken& t : tokens) ids.push_back(t.id);
  return ids;
}

// Sum of (seen - expected)^2 / expected, of tokens drawn at positions 0 .. draws-1.
double chi_square(const std::vector<float>& x, SamplingRow row,
                  const std::vector<double>& probability, int draws, Team& team) {
  Batch batch(static_cast<int64_t>(x.size()));
  for (int i = 0; i < draws; ++i) {
    row.position = static_cast<uint32_t>(i);
    batch.add(x, row);
  }
  std::vector<double> seen(x.size());
  for (const SampledToken& t : batch.sample(team)) ++seen[static_cast<size_t>(t.id)];
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = probability[i] * draws;
    if (expected == 0) {
      BOOST_TEST(seen[i] == 0);
    } else {
      sum += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
  }
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sampling_tests)

BOOST_AUTO_TEST_CASE(greedy_takes_the_largest_and_the_lowest_id_among_equals) {
  at_every_level([](Team& team) {
    SamplingRow greedy;
    greedy.temperature = 0;
    for (size_t vocab : {1, 2, 7, 16, 33, 1000, 32064}) {
      for (size_t at : {size_t{0}, vocab / 3, vocab - 1}) {
        auto x = random_floats(vocab, 7);
        x[at] = 5;
        BOOST_TEST(sample_one(x, greedy, team).id == static_cast<int32_t>(at));
        x[vocab - 1] = 5;
        BOOST_TEST(sample_one(x, greedy, team).id == static_cast<int32_t>(at));
      }
    }
    BOOST_TEST(sample_one(std::vector<float>(100, -3.0F), greedy, team).id == 0);
  });
}

BOOST_AUTO_TEST_CASE(random_rows_match_the_sorting_reference) {
  constexpr uint32_t kSeed = 20240611;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  at_every_level([](Team& team) {
    int wrong = 0, rounding = 0, n = 0;
    for (int64_t vocab : {1, 2, 9, 100, 1024, 5003}) {
      const Batch batch =
          random_batch(vocab > 1000 ? 60 : 250, vocab, kSeed + static_cast<uint32_t>(vocab));
      const auto tokens = batch.sample(team);
      for (size_t r = 0; r < tokens.size(); ++r, ++n) {
        if (tokens[r].id == reference(batch.row(r), vocab, batch.rows[r])) continue;
        if (is_reference_but_for_rounding(tokens[r].id, batch.row(r), vocab, batch.rows[r])) {
          ++rounding;
        } else {
          ++wrong;
          BOOST_TEST_MESSAGE("vocab " << vocab << " row " << r);
        }
      }
    }
    BOOST_TEST(wrong == 0);
    BOOST_TEST(rounding * 100 < n);
  });
}

BOOST_AUTO_TEST_CASE(every_level_and_team_samples_the_same_tokens) {
  constexpr uint32_t kSeed = 99;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  const Batch batch = random_batch(4000, 300, kSeed);
  const Batch large = random_batch(40, 32064, kSeed);
  std::vector<int32_t> first, first_large;
  at_every_level([&](Team& team) {
    const auto ids = ids_of(batch.sample(team)), ids_large = ids_of(large.sample(team));
    if (first.empty()) {
      first = ids;
      first_large = ids_large;
    }
    BOOST_TEST((ids == first));
    BOOST_TEST((ids_large == first_large));
  });
}

BOOST_AUTO_TEST_CASE(a_row_samples_the_same_alone_and_in_a_batch) {
  PlainTeam team(3);
  const Batch batch = random_batch(100, 777, 3);
  const auto together = batch.sample(team);
  for (size_t r = 0; r < together.size(); ++r) {
    Batch alone(777, 3);
    alone.add({batch.row(r), batch.row(r) + 777}, batch.rows[r]);
    BOOST_TEST(alone.sample(team)[0].id == together[r].id);
  }
}

BOOST_AUTO_TEST_CASE(draws_follow_the_distribution) {
  // 49 degrees of freedom: above 94 once in 10,000 seeds.
  PlainTeam team(1);
  const auto x = random_floats(50, 17, -1.5F, 1.5F);
  for (float temperature : {0.5F, 1.0F, 3.0F}) {
    std::vector<double> probability;
    double sum = 0;
    for (float v : x) sum += probability.emplace_back(std::exp(double{v} / double{temperature}));
    for (double& p : probability) p /= sum;
    SamplingRow row;
    row.temperature = temperature;
    row.seed = 1234;
    BOOST_TEST(chi_square(x, row, probability, 20000, team) < 94);
  }
}

BOOST_AUTO_TEST_CASE(draws_follow_the_distribution_left_by_top_k) {
  // 9 degrees of freedom: above 34 once in 10,000 seeds.
  PlainTeam team(1);
  auto x = random_floats(50, 18, -1.5F, 1.5F);
  std::vector<float> sorted = x;
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<double> probability;
  double sum = 0;
  for (float v : x) sum += probability.emplace_back(v >= sorted[9] ? std::exp(double{v}) : 0);
  for (double& p : probability) p /= sum;
  SamplingRow row;
  row.top_k = 10;
  row.seed = 77;
  BOOST_TEST(chi_square(x, row, probability, 20000, team) < 34);
}

BOOST_AUTO_TEST_CASE(seed_choice_and_position_each_change_the_draw) {
  PlainTeam team(1);
  const std::vector<float> flat(30000, 0.0F);
  const SamplingRow base;
  SamplingRow seed = base, seed_high = base, choice = base, position = base;
  seed.seed = 1;
  seed_high.seed = uint64_t{1} << 40;
  choice.choice = 1;
  position.position = 1;
  std::vector<int32_t> ids;
  for (const SamplingRow& row : {base, seed, seed_high, choice, position})
    ids.push_back(sample_one(flat, row, team).id);
  std::sort(ids.begin(), ids.end());
  BOOST_TEST((std::adjacent_find(ids.begin(), ids.end()) == ids.end()));
}

BOOST_AUTO_TEST_CASE(settings_that_leave_one_token_take_the_top_one) {
  at_every_level([](Team& team) {
    auto x = random_floats(500, 4);
    x[123] = 2.5F;
    SamplingRow no_mass, one, cold, coldest, strict;
    no_mass.top_p = 0;
    one.top_k = 1;
    cold.temperature = 1e-8F;
    coldest.temperature = 1e-45F;
    strict.min_p = 1;
    for (SamplingRow row : {no_mass, one, cold, coldest, strict}) {
      for (uint32_t position = 0; position < 20; ++position) {
        row.position = position;
        BOOST_TEST(sample_one(x, row, team).id == 123);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(equal_logits_at_a_cut_keep_the_lowest_ids) {
  at_every_level([](Team& team) {
    std::vector<float> x(2000, 1.0F);
    x[1500] = 2;
    SamplingRow row;
    row.top_k = 4;
    std::vector<int> seen(2000);
    for (uint32_t i = 0; i < 300; ++i) {
      row.position = i;
      ++seen[static_cast<size_t>(sample_one(x, row, team).id)];
    }
    BOOST_TEST(seen[0] > 0);
    BOOST_TEST(seen[1] > 0);
    BOOST_TEST(seen[2] > 0);
    BOOST_TEST(seen[1500] > 0);
    BOOST_TEST(seen[0] + seen[1] + seen[2] + seen[1500] == 300);
  });
}

BOOST_AUTO_TEST_CASE(anything_not_finite_is_reported_wherever_it_stands) {
  at_every_level([](Team& team) {
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      for (size_t at : {0, 5, 63, 64, 66}) {
        auto x = random_floats(67, 6);
        x[at] = bad;
        for (float temperature : {0.0F, 1.0F}) {
          SamplingRow row;
          row.temperature = temperature;
          row.n_logprobs = 5;
          const SampledToken token = sample_one(x, row, team);
          BOOST_TEST(token.non_finite);
          BOOST_TEST(token.id == 0);
          BOOST_TEST(token.n_top == 0);
        }
      }
    }
    BOOST_TEST(!sample_one(random_floats(67, 6, -1e38F, 1e38F), {}, team).non_finite);
  });
}

BOOST_AUTO_TEST_CASE(logprobs_are_of_the_raw_distribution_within_2e_6) {
  at_every_level([](Team& team) {
    for (size_t vocab : {1, 3, 20, 777, 32064}) {
      for (float spread : {1.0F, 12.0F}) {
        const auto x = random_floats(vocab, 8, -spread, spread);
        SamplingRow row;
        row.temperature = 0.6F;
        row.top_k = 3;
        row.n_logprobs = kMaxTopLogprobs;
        const SampledToken token = sample_one(x, row, team);
        const auto n = static_cast<int64_t>(vocab);
        BOOST_TEST(std::abs(token.logprob - log_softmax(x.data(), n, token.id)) < 2e-6);
        BOOST_TEST(token.n_top == static_cast<int32_t>(std::min<size_t>(vocab, kMaxTopLogprobs)));
        std::vector<int32_t> order(vocab);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&x](int32_t a, int32_t b) {
          return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
        });
        for (int32_t i = 0; i < token.n_top; ++i) {
          BOOST_TEST(token.top_ids[i] == order[static_cast<size_t>(i)]);
          BOOST_TEST(std::abs(token.top_logprobs[i] - log_softmax(x.data(), n, token.top_ids[i])) <
                     2e-6);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(alternatives_with_equal_logits_come_lowest_id_first) {
  at_every_level([](Team& team) {
    std::vector<float> x(100, 0.0F);
    x[50] = 1;
    x[70] = 1;
    SamplingRow row;
    row.temperature = 0;
    row.n_logprobs = 4;
    const SampledToken token = sample_one(x, row, team);
    const int32_t want[] = {50, 70, 0, 1};
    for (int i = 0; i < 4; ++i) BOOST_TEST(token.top_ids[i] == want[i]);
  });
}

BOOST_AUTO_TEST_CASE(logprobs_are_clamped_and_absent_when_not_asked_for) {
  PlainTeam team(1);
  SamplingRow row;
  row.temperature = 0;
  row.n_logprobs = 2;
  const SampledToken clamped = sample_one({0, -30000}, row, team);
  BOOST_TEST(clamped.top_logprobs[1] == -9999.0F);
  row.n_logprobs = -1;
  const SampledToken none = sample_one({0, 1}, row, team);
  BOOST_TEST(none.n_top == 0);
  BOOST_TEST(none.logprob == 0.0F);
  row.n_logprobs = 0;
  const SampledToken own = sample_one({0, 0}, row, team);
  BOOST_TEST(own.n_top == 0);
  BOOST_TEST(std::abs(own.logprob + std::log(2.0F)) < 1e-6F);
}

BOOST_AUTO_TEST_CASE(cuts_are_found_among_values_spread_over_all_magnitudes) {
  // Each round of narrowing splits off few of these: the search must still end at the exact token.
  at_every_level([](Team& team) {
    std::vector<float> x;
    for (int e = -120; e <= 120; ++e) x.push_back(-std::ldexp(1.0F, e));
    for (int i = 0; i < 400; ++i) x.push_back(-std::ldexp(1.0F, -100) * static_cast<float>(1 + i));
    for (int32_t k = 1; k < 300; k += 13) {
      SamplingRow row;
      row.top_k = k;
      for (uint32_t position = 0; position < 20; ++position) {
        row.position = position;
        const int32_t id = sample_one(x, row, team).id;
        BOOST_TEST(
            is_reference_but_for_rounding(id, x.data(), static_cast<int64_t>(x.size()), row));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(no_rows_is_no_work) {
  PlainTeam team(2);
  sample_cpu({nullptr, nullptr, nullptr, 0, 100, 100}, team);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
