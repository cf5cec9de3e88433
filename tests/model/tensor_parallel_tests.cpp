// A language model that several devices share computes what one device computes: logits within a
// tolerance for every way its heads can be split, the reference library's tokens on the demo
// models, and the same bits however a step is put together. Each device holds its share only.
#include <pthread.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint_files.h"
#include "device/cpu/cpu_device.h"
#include "golden_cases.h"
#include "golden_compare.h"
#include "model/llama_shard.h"
#include "model/prompt.h"
#include "step_runner.h"
#include "support/backends.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

struct SharedModel {
  // `backend` as of make_backend(); CPU devices have one thread each.
  SharedModel(const std::filesystem::path& dir, int32_t n_ranks, std::string_view backend,
              DType dtype) {
    std::vector<Device*> ranks;
    for (int32_t i = 0; i < n_ranks; ++i) {
      if (backend == "cpu") {
        auto made = make_cpu_device({.index = i, .threads = 1, .cores = {}});
        BOOST_REQUIRE_MESSAGE(made.has_value(), message_of(made));
        devices.push_back(std::move(*made));
      } else {
        devices.push_back(make_backend(backend));
      }
      ranks.push_back(devices.back().get());
    }
    auto loaded = load_model({.path = dir,
                              .dtype = dtype,
                              .block_size = 8,
                              .max_step_tokens = 256,
                              .vision_devices = {ranks.front()},
                              .language_devices = {DeviceGroup(ranks)}});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
    model = std::move(*loaded);
    BOOST_TEST(model.languages.front()->n_ranks() == n_ranks);
  }
  Device& device() { return *devices.front(); }

  std::vector<std::unique_ptr<Device>> devices;
  Model model;
};

Prompt some_prompt(int32_t n) {
  Prompt prompt;
  for (int32_t i = 0; i < n; ++i) prompt.token_ids.push_back((131 + i * i * 7 + i * 13) % 1000);
  number_positions(prompt);
  return prompt;
}

std::vector<float> logits_of(SharedModel& shared, int32_t n, const std::vector<int64_t>& chunks) {
  StepRunner runner(shared.model, shared.device(), 64);
  auto sequence = runner.start(some_prompt(n));
  for (const int64_t chunk : chunks) runner.step({{&sequence, chunk}});
  return runner.logits({{&sequence, n - sequence.n_cached}});
}

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float d = std::abs(a[i] - b[i]);
    most = std::isfinite(d) ? std::max(most, d) : HUGE_VALF;
  }
  return most;
}

struct Shape {
  const char* what;
  nlohmann::json config;
  std::vector<int32_t> n_ranks;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"6 heads, 2 KV heads: one each, then the same on three ranks",
       nlohmann::json::object(),
       {2, 6}},
      {"every head its own KV head", {{"num_key_value_heads", 6}}, {2, 3, 6}},
      {"one KV head, on all ranks", {{"num_key_value_heads", 1}}, {2, 3}},
      {"biases of q, k and v", {{"model_type", "qwen2"}}, {2, 6}},
      {"all biases; those of o and down count once",
       {{"attention_bias", true}, {"mlp_bias", true}, {"num_key_value_heads", 6}},
       {2, 3}},
      {"inner columns that do not divide", {{"intermediate_size", 75}}, {2, 6}},
      {"the output matrix is the embedding table", {{"tie_word_embeddings", true}}, {2}},
      {"odd sizes",
       {{"hidden_size", 100},
        {"num_attention_heads", 10},
        {"num_key_value_heads", 5},
        {"head_dim", 20},
        {"intermediate_size", 77},
        {"vocab_size", 1003}},
       {5, 10}},
  };
  return all;
}

// Parts are added up in another order than one device does: the last bits differ. In bfloat16 that
// rounds some keys and values to a neighbour.
constexpr float kTolerance = 1e-4F;
constexpr float kBf16Tolerance = 5e-2F;

LlamaConfig heads(int32_t n_heads, int32_t n_kv_heads, int32_t ff_dim = 1024) {
  LlamaConfig config;
  config.n_heads = n_heads;
  config.n_kv_heads = n_kv_heads;
  config.ff_dim = ff_dim;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensor_parallel_tests)

BOOST_AUTO_TEST_CASE(shared_logits_are_those_of_one_device) {
  for (const Shape& shape : shapes()) {
    TempDir dir;
    write_random_llama(dir.path(), shape.config, 7);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SharedModel one(dir.path(), 1, "cpu", dtype);
      const auto whole = logits_of(one, 70, {});
      for (const int32_t n : shape.n_ranks) {
        SharedModel shared(dir.path(), n, "cpu", dtype);
        const float most = distance(logits_of(shared, 70, {}), whole);
        BOOST_TEST(most < (dtype == DType::kF32 ? kTolerance : kBf16Tolerance),
                   shape.what << ", " << n << " ranks: differs by " << most);
        BOOST_TEST(most > 0, "sums in another order");  // else nothing was shared
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(plain_loops_share_likewise) {
  TempDir dir;
  write_random_llama(dir.path(), {{"model_type", "qwen2"}}, 7);
  SharedModel one(dir.path(), 1, "reference", DType::kF32);
  SharedModel shared(dir.path(), 6, "reference", DType::kF32);
  BOOST_TEST(distance(logits_of(shared, 30, {}), logits_of(one, 30, {})) < kTolerance);
}

BOOST_AUTO_TEST_CASE(chunks_company_and_repetition_change_no_bit) {
  TempDir dir;
  write_random_llama(dir.path(), nlohmann::json::object(), 7);
  SharedModel shared(dir.path(), 2, "cpu", DType::kF32);
  const auto whole = logits_of(shared, 60, {});
  for (int round = 0; round < 5; ++round) BOOST_TEST(logits_of(shared, 60, {}) == whole);
  for (const std::vector<int64_t>& chunks : {std::vector<int64_t>{1}, {7, 1, 30}, {59}}) {
    BOOST_TEST(logits_of(shared, 60, chunks) == whole);
  }
  StepRunner runner(shared.model, shared.device(), 128);
  auto other = runner.start(some_prompt(11));
  auto subject = runner.start(some_prompt(60));
  const auto both = runner.logits({{&other, 11}, {&subject, 60}});
  BOOST_TEST(std::vector<float>(both.begin() + 1024, both.end()) == whole);
}

BOOST_DATA_TEST_CASE(demo_models_give_the_reference_librarys_tokens,
                     boost::unit_test::data::make({0, 1, 2, 3}), which) {
  const std::pair<const char*, int32_t> models[] = {
      {"llava", 2}, {"llava", 3}, {"qwen2_5_vl", 2}, {"qwen2_5_vl", 6}};
  const auto& [name, n_ranks] = models[which];
  SharedModel shared(demo_model_dir(name), n_ranks, "cpu", DType::kF32);
  for (const GoldenCase& golden : load_golden_cases(golden_dir(name))) {
    const Comparison result = compare(shared.model, shared.device(), golden);
    BOOST_TEST_CONTEXT(name << " " << golden.name << " on " << n_ranks << " devices") {
      BOOST_TEST(result.logits_difference <= kLogitsTolerance);
      BOOST_TEST(same_greedy(golden, result.greedy));
    }
  }
}

BOOST_AUTO_TEST_CASE(each_device_holds_its_share_of_the_layers) {
  SharedModel one(demo_model_dir("llava"), 1, "cpu", DType::kF32);
  for (const int32_t n : {2, 3, 6}) {
    SharedModel shared(demo_model_dir("llava"), n, "cpu", DType::kF32);
    const ModelSpec& whole = one.model.spec;
    const ModelSpec& split = shared.model.spec;
    // Only norms are there more than once, and panels are filled up to 16 rows.
    BOOST_TEST(split.prefill_weight_bytes >= whole.prefill_weight_bytes);
    BOOST_TEST(static_cast<double>(split.prefill_weight_bytes) <
               1.05 * static_cast<double>(whole.prefill_weight_bytes));
    BOOST_TEST(split.step_weight_bytes - split.prefill_weight_bytes ==
               whole.step_weight_bytes - whole.prefill_weight_bytes);
    // One block of all ranks together.
    BOOST_TEST(split.kv_block_bytes(n) == whole.kv_block_bytes());
  }
  BOOST_TEST(one.model.spec.kv_block_bytes(12) == 2 * one.model.spec.kv_block_bytes());
}

BOOST_AUTO_TEST_CASE(ranks_read_what_the_formula_says) {
  TempDir dir;
  write_random_llama(dir.path(), nlohmann::json::object(), 7);
  constexpr int64_t kDim = 96;
  constexpr int64_t kLayers = 3;
  constexpr int64_t kTokens = 40;
  for (const int32_t n : {2, 6}) {
    SharedModel shared(dir.path(), n, "cpu", DType::kF32);
    logits_of(shared, kTokens, {});
    // Two sums a layer; of the last layer's, only the sampled row. The embeddings once, from rank
    // 0.
    const int64_t sums = (2 * (kLayers - 1) * kTokens + 2) * kDim * 4 * (n - 1);
    const LanguageModel& language = *shared.model.languages.front();
    BOOST_TEST(language.bytes_received(0) == sums);
    for (int32_t rank = 1; rank < n; ++rank) {
      BOOST_TEST(language.bytes_received(rank) == sums + kTokens * kDim * 4);
    }
  }
}

// Stacks larger than the address space: no thread can be started.
BOOST_AUTO_TEST_CASE(without_threads_for_all_ranks_a_step_is_refused_and_the_next_one_goes_well) {
  TempDir dir;
  write_random_llama(dir.path(), nlohmann::json::object(), 7);
  SharedModel shared(dir.path(), 2, "cpu", DType::kF32);
  LanguageModel& language = *shared.model.languages.front();
  BOOST_TEST_REQUIRE(language.allocate_kv(8).has_value());
  LanguageStep step;  // one token of one sequence
  step.token_ids = {5};
  step.positions = {0};
  step.slots = {0};
  step.cu_query = {0, 1};
  step.context_lens = {1};
  step.block_tables = {0};
  step.block_table_stride = 1;
  step.sample_rows = {0};
  std::vector<float> logits;
  pthread_attr_t before;
  pthread_attr_t huge;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&huge);
  pthread_attr_setstacksize(&huge, size_t{1} << 47);
  BOOST_TEST_REQUIRE(pthread_setattr_default_np(&huge) == 0);
  const Status refused = language.logits(step, logits);
  pthread_setattr_default_np(&before);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kResourceExhausted), refused.error().message);
  const Status again = language.logits(step, logits);
  BOOST_TEST(again.has_value(), message_of(again));
}

BOOST_AUTO_TEST_CASE(heads_go_to_ranks_in_whole_groups) {
  BOOST_TEST(check_split(heads(32, 8), 4).has_value());
  const LlamaShard shard = shard_of(heads(32, 8, 11008), 1, 4);
  BOOST_TEST((shard.heads.first == 8 && shard.heads.size == 8));
  BOOST_TEST((shard.kv_heads.first == 2 && shard.kv_heads.size == 2));
  BOOST_TEST((shard.ff.first == 2752 && shard.ff.size == 2752));
  // Ranks 4 to 7 of 8 have the second of two KV heads.
  for (int32_t rank = 0; rank < 8; ++rank) {
    const LlamaShard one = shard_of(heads(16, 2, 1001), rank, 8);
    BOOST_TEST((one.heads.first == 2 * rank && one.heads.size == 2));
    BOOST_TEST((one.kv_heads.first == rank / 4 && one.kv_heads.size == 1));
    const int64_t end = rank == 7 ? 1001 : shard_of(heads(16, 2, 1001), rank + 1, 8).ff.first;
    BOOST_TEST(one.ff.first + one.ff.size == end);
  }
}

BOOST_AUTO_TEST_CASE(splits_that_cannot_be_are_refused_in_one_line) {
  const auto refusal = [](const LlamaConfig& config, int32_t n) {
    const Status status = check_split(config, n);
    BOOST_REQUIRE(!status);
    BOOST_TEST((status.error().kind == ErrorKind::kInvalidArgument));
    return status.error().message;
  };
  BOOST_TEST(refusal(heads(6, 2), 4) ==
             "tensor-parallel 4: 4 devices cannot share 6 attention heads with 2 KV heads evenly; "
             "this model can be split by 2, 6");
  BOOST_TEST(refusal(heads(6, 2), 3).starts_with("tensor-parallel 3: 3 devices cannot share"));
  BOOST_TEST(refusal(heads(7, 7), 14).ends_with("this model can be split by 7"));
  BOOST_TEST(refusal(heads(1, 1), 2).ends_with("this model has no other split either"));

  TempDir dir;
  write_random_llama(dir.path(), nlohmann::json::object(), 7);
  const auto device = make_backend("cpu");
  const auto refused =
      load_model({.path = dir.path(),
                  .language_devices = {DeviceGroup({device.get(), device.get(), device.get()})}});
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(message_of(refused).starts_with("tensor-parallel 3: 3 devices cannot share"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
