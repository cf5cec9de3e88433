// Proves what stands between the logits and the draw: penalties against a float64 loop, biases,
// bans, masks and forced ids; none of them touches log-probabilities.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/op_testing.h"
#include "kernels/sampling.h"
#include "kernels/sampling_testing.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(sampling_rules_tests)

BOOST_AUTO_TEST_CASE(banned_ids_are_never_sampled_and_keep_their_logprob) {
  at_every_level([](Team& team) {
    auto x = random_floats(100, 5);
    x[40] = 9;
    x[7] = 3;
    const int32_t banned[] = {40, 99, -1, 1000};
    SamplingRow row;
    row.ban_eos = true;
    row.banned_ids = banned;
    row.n_banned = 4;
    row.n_logprobs = 1;
    for (float temperature : {0.0F, 1.0F}) {
      row.temperature = temperature;
      for (uint32_t i = 0; i < 50; ++i) {
        row.position = i;
        const SampledToken token = sample_one(x, row, team);
        BOOST_TEST(token.id != 40);
        BOOST_TEST(token.id != 99);
        BOOST_TEST(token.top_ids[0] == 40);
        if (temperature == 0) BOOST_TEST(token.id == 7);
      }
    }
    row.ban_eos = false;
    row.temperature = 0;
    BOOST_TEST(sample_one(x, row, team).id == 40);
  });
}

BOOST_AUTO_TEST_CASE(a_ban_on_everything_is_void) {
  PlainTeam team(1);
  const int32_t banned[] = {0, 1};
  SamplingRow row;
  row.ban_eos = true;
  row.banned_ids = banned;
  row.n_banned = 2;
  row.temperature = 0;
  BOOST_TEST(sample_one({1, 2}, row, team).id == 1);
}

BOOST_AUTO_TEST_CASE(only_allowed_ids_are_sampled_and_a_ban_gives_way_before_the_mask) {
  at_every_level([](Team& team) {
    auto x = random_floats(100, 6);
    x[40] = 9;
    uint32_t mask[4] = {};
    for (const int id : {7, 33, 99}) mask[id / 32] |= 1U << (id % 32);
    SamplingRow row;
    row.allowed = mask;
    row.n_logprobs = 1;
    std::vector<int> seen(100);
    for (uint32_t i = 0; i < 300; ++i) {
      row.position = i;
      const SampledToken token = sample_one(x, row, team);
      ++seen[static_cast<size_t>(token.id)];
      BOOST_TEST(token.top_ids[0] == 40);  // log-probabilities are those of the model
    }
    BOOST_TEST(seen[7] > 0);
    BOOST_TEST(seen[7] + seen[33] + seen[99] == 300);
    const int32_t banned[] = {7, 33};
    row.ban_eos = true;
    row.banned_ids = banned;
    row.n_banned = 2;
    BOOST_TEST(sample_one(x, row, team).id == 99);
    const int32_t all_of_them[] = {7, 33, 99};
    row.banned_ids = all_of_them;
    row.n_banned = 3;
    row.temperature = 0;
    const int32_t left = sample_one(x, row, team).id;
    BOOST_TEST((left == 7 || left == 33 || left == 99));
    const uint32_t nothing[4] = {};
    row.allowed = nothing;
    row.ban_eos = false;
    BOOST_TEST(sample_one(x, row, team).id == 40);
  });
}

BOOST_AUTO_TEST_CASE(biases_come_after_penalties_and_leave_logprobs_alone) {
  PlainTeam team(1);
  const TokenCount counts[] = {{.id = 1, .n_output = 1}};
  const TokenBias biases[] = {{0, 100}, {1, 2}, {-1, 50}, {7, 50}};  // two beyond the vocabulary
  SamplingRow row;
  row.temperature = 0;
  row.n_logprobs = 0;
  row.counts = counts;
  row.n_counts = 1;
  row.presence_penalty = 1;
  row.biases = biases;
  row.n_biases = 4;
  const std::vector<float> x = {-99, 4, 5.5F};
  BOOST_TEST(sample_one(x, row, team).id == 2);  // 1, 4 - 1 + 2 = 5, 5.5
  row.presence_penalty = 0;
  const SampledToken token = sample_one(x, row, team);
  BOOST_TEST(token.id == 1);  // 6
  BOOST_TEST(std::abs(token.logprob - log_softmax(x.data(), 3, 1)) < 1e-5);
}

BOOST_AUTO_TEST_CASE(a_forced_id_is_taken_with_its_logprob) {
  at_every_level([](Team& team) {
    const auto x = random_floats(500, 8);
    SamplingRow row;
    row.forced_id = 321;
    row.n_logprobs = 3;
    const uint32_t nothing[16] = {};
    row.allowed = nothing;
    for (const float temperature : {0.0F, 1.0F}) {
      row.temperature = temperature;
      const SampledToken token = sample_one(x, row, team);
      BOOST_TEST(token.id == 321);
      BOOST_TEST(std::abs(token.logprob - log_softmax(x.data(), 500, 321)) < 1e-5);
      BOOST_TEST(token.n_top == 3);
    }
  });
}

BOOST_AUTO_TEST_CASE(penalties_equal_a_float64_loop) {
  constexpr uint32_t kSeed = 99;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  at_every_level([](Team& team) {
    std::mt19937 engine(kSeed);
    for (int round = 0; round < 300; ++round) {
      const auto vocab = static_cast<size_t>(1 + engine() % 200);
      std::vector<float> x = random_floats(vocab, static_cast<uint32_t>(engine()), -8, 8);
      SamplingRow row;
      row.repetition_penalty = std::array{1.0F, 1.05F, 1.5F, 0.5F}[engine() % 4];
      row.frequency_penalty = std::array{0.0F, 0.3F, 2.0F, -1.0F}[engine() % 4];
      row.presence_penalty = std::array{0.0F, 0.7F, -2.0F}[engine() % 3];
      std::vector<TokenCount> counts;
      for (int32_t id = 0; id < static_cast<int32_t>(vocab) + 3;
           ++id)  // also beyond the vocabulary
        if (engine() % 3 == 0) counts.push_back({id, static_cast<int32_t>(engine() % 4)});
      row.counts = counts.data();
      row.n_counts = static_cast<int32_t>(counts.size());
      std::vector<double> wanted(x.begin(), x.end());
      for (const TokenCount& token : counts) {
        if (token.id >= static_cast<int32_t>(vocab)) continue;
        double& value = wanted[static_cast<size_t>(token.id)];
        value = value > 0 ? value / row.repetition_penalty : value * row.repetition_penalty;
        value -= double{row.frequency_penalty} * token.n_output;
        if (token.n_output > 0) value -= row.presence_penalty;
      }
      row.temperature = 0;
      row.n_logprobs = 0;
      const SampledToken token = sample_one(x, row, team);
      const double best = *std::max_element(wanted.begin(), wanted.end());
      BOOST_TEST(wanted[static_cast<size_t>(token.id)] >= best - 1e-5);
      BOOST_TEST(std::abs(token.logprob -
                          log_softmax(x.data(), static_cast<int64_t>(vocab), token.id)) < 1e-5);
      row.temperature = 0.8F;
      row.seed = engine();
      const std::vector<float> rounded(wanted.begin(), wanted.end());
      SamplingRow plain = row;
      plain.n_counts = 0;
      BOOST_TEST(is_reference_but_for_rounding(sample_one(x, row, team).id, rounded.data(),
                                               static_cast<int64_t>(vocab), plain));
    }
  });
}

BOOST_AUTO_TEST_CASE(penalties_and_bans_work_together) {
  PlainTeam team(1);
  const TokenCount counts[] = {{.id = 1, .n_output = 2}, {.id = 2, .n_output = 0}};
  const int32_t banned[] = {3};
  SamplingRow row;
  row.temperature = 0;
  row.counts = counts;
  row.n_counts = 2;
  row.frequency_penalty = 1;
  row.ban_eos = true;
  row.banned_ids = banned;
  row.n_banned = 1;
  BOOST_TEST(sample_one({0, 3, 2, 9}, row, team).id == 2);  // 0, 3 - 2, 2, banned
  const int32_t everything[] = {0, 1, 2, 3};
  row.banned_ids = everything;
  row.n_banned = 4;
  row.frequency_penalty = 4;
  BOOST_TEST(sample_one({0, 9, 2, 2}, row, team).id == 2);  // the ban is void, the penalty is not
}

BOOST_AUTO_TEST_CASE(the_largest_logits_stay_finite_under_penalties) {
  PlainTeam team(1);
  const TokenCount counts[] = {{.id = 0, .n_output = 1000}, {.id = 1, .n_output = 1}};
  SamplingRow row;
  row.counts = counts;
  row.n_counts = 2;
  for (const float temperature : {0.0F, 1.0F}) {
    row.temperature = temperature;
    row.repetition_penalty = 0.01F;
    BOOST_TEST(sample_one({1, 3e38F, 0}, row, team).id == 1);
    row.repetition_penalty = 100;
    BOOST_TEST(sample_one({-3e38F, -3e38F, -3e38F}, row, team).id == 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
