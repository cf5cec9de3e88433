// Proves sampling on the emulated GPU equal to the CPU's, token for token: every setting, ties,
// flat and peaked rows, large vocabularies, penalties, biases, masks, bans, forced tokens;
// log-probabilities; rows that are not finite.
#include <algorithm>
#include <array>
#include <cstring>

#include "cuda/cuda_testing.h"
#include "kernels/sampling.h"
#include "kernels/sampling_cuda.h"

namespace hs::test {
namespace {

// Rows with their settings; what the settings point to is kept here and in device memory.
class Batch {
 public:
  explicit Batch(int64_t vocab) : vocab_(vocab), stride_(vocab + 3) {}

  void add(const std::vector<float>& x, SamplingRow row, const std::vector<TokenCount>& counts = {},
           const std::vector<int32_t>& banned = {}, const std::vector<TokenBias>& biases = {},
           const std::vector<uint32_t>& allowed = {}) {
    logits_.insert(logits_.end(), x.begin(), x.end());
    logits_.resize(logits_.size() + 3, 1e9F);  // never to be sampled
    counts_.emplace_back(counts);
    banned_.emplace_back(banned);
    biases_.emplace_back(biases);
    allowed_.emplace_back(allowed);
    row.counts = counts_.back().data();
    row.n_counts = static_cast<int32_t>(counts.size());
    row.banned_ids = banned_.back().data();
    row.n_banned = static_cast<int32_t>(banned.size());
    row.biases = biases_.back().data();
    row.n_biases = static_cast<int32_t>(biases.size());
    if (!allowed.empty()) row.allowed = allowed_.back().data();
    rows_.push_back(row);
  }

  std::vector<SampledToken> on_cpu() const {
    PlainTeam team(1);
    std::vector<SampledToken> out(rows_.size());
    sample_cpu({.logits = logits_.data(),
                .rows = rows_.data(),
                .out = out.data(),
                .n_rows = static_cast<int64_t>(rows_.size()),
                .vocab = vocab_,
                .logits_stride = stride_},
               team);
    return out;
  }

  std::vector<SampledToken> on_gpu() const {
    const auto n = static_cast<int64_t>(rows_.size());
    const DeviceArray<float> logits(logits_);
    const DeviceArray<SamplingRow> rows(rows_);
    const DeviceArray<SampledToken> out(rows_.size());
    const DeviceArray<float> workspace(cuda::sample_workspace_bytes(n, vocab_) / sizeof(float));
    BOOST_TEST(cuda::sample({.logits = logits.data(),
                             .rows = rows.data(),
                             .out = out.data(),
                             .n_rows = n,
                             .vocab = vocab_,
                             .logits_stride = stride_,
                             .workspace = workspace.data()},
                            nullptr) == cudaSuccess);
    BOOST_TEST(out.intact());
    BOOST_TEST(std::memcmp(logits.data(), logits_.data(), logits_.size() * sizeof(float)) == 0);
    return out.get();
  }

  const float* row(size_t r) const { return logits_.data() + static_cast<int64_t>(r) * stride_; }

 private:
  int64_t vocab_, stride_;
  std::vector<float> logits_;
  std::vector<SamplingRow> rows_;
  std::vector<DeviceArray<TokenCount>> counts_;
  std::vector<DeviceArray<int32_t>> banned_;
  std::vector<DeviceArray<TokenBias>> biases_;
  std::vector<DeviceArray<uint32_t>> allowed_;
};

// The tokens, and the log-probabilities within rounding.
void check_equal(const Batch& batch) {
  const auto wanted = batch.on_cpu(), got = batch.on_gpu();
  for (size_t r = 0; r < wanted.size(); ++r) {
    BOOST_TEST_CONTEXT("row " << r) {
      BOOST_TEST(got[r].id == wanted[r].id);
      BOOST_TEST(got[r].non_finite == wanted[r].non_finite);
      BOOST_TEST(std::abs(got[r].logprob - wanted[r].logprob) < 4e-6F);
      BOOST_TEST(got[r].n_top == wanted[r].n_top);
      for (int i = 0; i < kMaxTopLogprobs; ++i) {
        BOOST_TEST(got[r].top_ids[i] == wanted[r].top_ids[i]);
        BOOST_TEST(std::abs(got[r].top_logprobs[i] - wanted[r].top_logprobs[i]) < 4e-6F);
      }
    }
  }
}

std::vector<float> random_row(int64_t vocab, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  const float spread = std::array{0.1F, 1.0F, 3.0F, 20.0F}[engine() % 4];
  std::vector<float> x(static_cast<size_t>(vocab));
  for (float& v : x) v = spread * normal(engine);
  if (engine() % 3 == 0) {
    for (float& v : x) v = std::round(v);  // ties, and zeros of both signs
  }
  if (engine() % 5 == 0) x[engine() % x.size()] = 1e30F;
  if (engine() % 5 == 0) x[engine() % x.size()] = -3e38F;
  return x;
}

SamplingRow random_settings(std::mt19937& engine) {
  SamplingRow row;
  row.temperature = std::array{0.0F, 0.2F, 0.7F, 1.0F, 1.0F, 2.5F}[engine() % 6];
  if (engine() % 2 == 0) row.top_p = std::array{0.0F, 0.1F, 0.5F, 0.9F, 0.99F}[engine() % 5];
  if (engine() % 2 == 0) row.top_k = std::array{-1, 1, 2, 5, 40, 1000000}[engine() % 6];
  if (engine() % 3 == 0) row.min_p = 0.3F * static_cast<float>(engine() % 1000) / 1000.0F;
  row.seed = (uint64_t{engine()} << 32) | engine();
  row.choice = static_cast<uint32_t>(engine() % 4);
  row.position = static_cast<uint32_t>(engine() % 5000);
  return row;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sampling_cuda_tests)

BOOST_AUTO_TEST_CASE(every_setting_gives_the_cpus_token) {
  constexpr uint32_t kSeed = 81;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  under_every_schedule([] {
    std::mt19937 engine(kSeed);
    for (const int64_t vocab : {1, 2, 31, 1000, 1024, 2500}) {
      Batch batch(vocab);
      for (int r = 0; r < 12; ++r) batch.add(random_row(vocab, engine), random_settings(engine));
      check_equal(batch);
    }
  });
}

BOOST_AUTO_TEST_CASE(large_vocabularies_give_the_cpus_token) {
  std::mt19937 engine(82);
  for (const int64_t vocab : {32064, 152064}) {
    Batch batch(vocab);
    for (int r = 0; r < 6; ++r) batch.add(random_row(vocab, engine), random_settings(engine));
    check_equal(batch);
  }
}

BOOST_AUTO_TEST_CASE(many_equal_logits_at_a_cut_keep_the_lowest_ids) {
  under_every_schedule([] {
    constexpr int64_t kVocab = 5000;
    std::vector<float> x(kVocab, 1.0F);
    x[1500] = 2;
    Batch batch(kVocab);
    for (uint32_t i = 0; i < 4; ++i) {
      SamplingRow row;
      row.position = i;
      row.top_k = std::array{4, 2500, 1025, 4999}[i];
      batch.add(x, row);
      row.top_k = 0;
      row.top_p = 0.4F;
      batch.add(x, row);
      row.top_k = 3000;
      batch.add(x, row);
    }
    check_equal(batch);
  });
}

BOOST_AUTO_TEST_CASE(cuts_among_values_of_all_magnitudes_give_the_cpus_token) {
  std::vector<float> x;
  for (int e = -120; e <= 120; ++e) x.push_back(-std::ldexp(1.0F, e));
  for (int i = 0; i < 2400; ++i) x.push_back(-std::ldexp(1.0F, -100) * static_cast<float>(1 + i));
  Batch batch(static_cast<int64_t>(x.size()));
  for (int32_t k = 1; k < 2600; k += 370) {
    SamplingRow row;
    row.top_k = k;
    row.position = static_cast<uint32_t>(k);
    batch.add(x, row);
  }
  check_equal(batch);
}

BOOST_AUTO_TEST_CASE(penalties_and_bans_give_the_cpus_token) {
  constexpr uint32_t kSeed = 83;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  under_every_schedule([] {
    std::mt19937 engine(kSeed);
    constexpr int64_t kVocab = 300;
    Batch batch(kVocab);
    for (int round = 0; round < 20; ++round) {
      SamplingRow row = random_settings(engine);
      row.repetition_penalty = std::array{1.0F, 1.05F, 1.5F, 0.5F}[engine() % 4];
      row.frequency_penalty = std::array{0.0F, 0.3F, 2.0F, -1.0F}[engine() % 4];
      row.presence_penalty = std::array{0.0F, 0.7F, -2.0F}[engine() % 3];
      std::vector<TokenCount> counts;
      for (int32_t id = 0; id < kVocab + 3; ++id) {  // also beyond the vocabulary
        if (engine() % 3 == 0) counts.push_back({id, static_cast<int32_t>(engine() % 4)});
      }
      row.ban_eos = engine() % 2 == 0;
      row.n_logprobs = 2;
      std::vector<TokenBias> biases = {{-1, 5}, {1000, 5}};
      for (int32_t id = 0; id < kVocab; id += 1 + static_cast<int32_t>(engine() % 40))
        biases.push_back({id, static_cast<float>(engine() % 200) - 100});
      std::vector<uint32_t> allowed;  // all, some, or nothing at all
      for (int64_t word = 0; engine() % 3 > 0 && word < (kVocab + 31) / 32; ++word)
        allowed.push_back(round % 5 == 0 ? 0U : static_cast<uint32_t>(engine() & engine()));
      if (!allowed.empty()) allowed.resize(static_cast<size_t>((kVocab + 31) / 32), 0U);
      if (round % 7 == 0) row.forced_id = static_cast<int32_t>(engine() % kVocab);
      batch.add(random_row(kVocab, engine), row, counts,
                {static_cast<int32_t>(engine() % kVocab), -1, 1000, 7}, biases, allowed);
    }
    check_equal(batch);
  });
}

BOOST_AUTO_TEST_CASE(a_ban_on_everything_is_void_and_a_penalty_is_not) {
  Batch batch(3);
  SamplingRow row;
  row.temperature = 0;
  row.ban_eos = true;
  row.frequency_penalty = 4;
  batch.add({9, 2, 1}, row, {{.id = 0, .n_output = 2}}, {0, 1, 2});
  check_equal(batch);
  BOOST_TEST(batch.on_gpu()[0].id == 1);
}

BOOST_AUTO_TEST_CASE(logprobs_are_of_the_raw_distribution) {
  under_every_schedule([] {
    std::mt19937 engine(84);
    for (const int64_t vocab : {1, 3, 20, 777}) {
      Batch batch(vocab);
      for (const int n : {-1, 0, 1, 5, kMaxTopLogprobs}) {
        SamplingRow row = random_settings(engine);
        row.n_logprobs = n;
        batch.add(random_row(vocab, engine), row);
      }
      check_equal(batch);
    }
  });
  const auto x = random_floats(32064, 85, -12, 12);
  Batch batch(32064);
  SamplingRow row;
  row.n_logprobs = 3;
  batch.add(x, row);
  const SampledToken token = batch.on_gpu()[0];
  double sum = 0;
  for (const float v : x) sum += std::exp(double{v});
  for (int i = 0; i < 3; ++i) {
    const double wanted = double{x[static_cast<size_t>(token.top_ids[i])]} - std::log(sum);
    BOOST_TEST(std::abs(double{token.top_logprobs[i]} - wanted) < 2e-6);
  }
}

BOOST_AUTO_TEST_CASE(anything_not_finite_is_reported_wherever_it_stands) {
  under_every_schedule([] {
    Batch batch(67);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (const size_t at : {0, 5, 66}) {
        auto x = random_floats(67, 6);
        x[at] = bad;
        SamplingRow row;
        row.n_logprobs = 5;
        batch.add(x, row);
      }
    }
    check_equal(batch);
    for (const SampledToken& token : batch.on_gpu()) BOOST_TEST(token.non_finite);
  });
}

BOOST_AUTO_TEST_CASE(temperatures_next_to_zero_and_strict_settings_take_the_top_token) {
  auto x = random_floats(500, 4);
  x[123] = 2.5F;
  Batch batch(500);
  SamplingRow no_mass, one, cold, coldest, strict;
  no_mass.top_p = 0;
  one.top_k = 1;
  cold.temperature = 1e-8F;
  coldest.temperature = 1e-45F;
  strict.min_p = 1;
  for (SamplingRow row : {no_mass, one, cold, coldest, strict}) {
    row.position = 9;
    batch.add(x, row);
  }
  for (const SampledToken& token : batch.on_gpu()) BOOST_TEST(token.id == 123);
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  BOOST_TEST(cuda::sample({.n_rows = 0, .vocab = 5, .logits_stride = 5}, nullptr) == cudaSuccess);
  BOOST_TEST(cuda::sample({.n_rows = 0, .vocab = 0}, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cuda::sample({.n_rows = 1, .vocab = 5, .logits_stride = 4}, nullptr) ==
             cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
