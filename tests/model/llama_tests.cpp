// The language model's (Llama's, Qwen2's) numbers do not depend on how a step is put together: a
// prompt in chunks, other sequences beside it, or more samples than fit the logits area give bit
// for bit the same on the CPU device. And the CPU device agrees with plain loops.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint_files.h"
#include "model/llama.h"
#include "model/prompt.h"
#include "step_runner.h"
#include "support/backends.h"
#include "support/results.h"
#include "support/temp_dir.h"

namespace hs::test {

namespace {

struct RandomLlama {
  RandomLlama(const nlohmann::json& config, std::string_view backend, DType dtype)
      : device(make_backend(backend)) {
    TempDir dir;
    write_random_llama(dir.path(), config, 7);
    auto loaded = load_model({.path = dir.path(),
                              .dtype = dtype,
                              .block_size = 8,
                              .max_step_tokens = 256,
                              .language_devices = {device.get()}});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), message_of(loaded));
    model = std::move(*loaded);
  }

  std::unique_ptr<Device> device;
  Model model;
};

Prompt some_prompt(int32_t n, int32_t seed) {
  Prompt prompt;
  for (int32_t i = 0; i < n; ++i)
    prompt.token_ids.push_back((seed * 131 + i * i * 7 + i * 13) % 1000);
  number_positions(prompt);
  return prompt;
}

std::vector<float> logits_of(RandomLlama& llama, int32_t n, const std::vector<int64_t>& chunks) {
  StepRunner runner(llama.model, *llama.device, 128);
  auto sequence = runner.start(some_prompt(n, 1));
  for (const int64_t chunk : chunks) runner.step({{&sequence, chunk}});
  return runner.logits({{&sequence, n - sequence.n_cached}});
}

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

}  // namespace

BOOST_AUTO_TEST_SUITE(llama_tests)

BOOST_DATA_TEST_CASE(chunks_change_no_bit, boost::unit_test::data::make({0, 1}), which) {
  RandomLlama llama(nlohmann::json::object(), "cpu", kDTypes[which]);
  const auto whole = logits_of(llama, 100, {});
  BOOST_REQUIRE_EQUAL(whole.size(), 1024U);
  const std::vector<int64_t> cuts[] = {{1}, {7, 1, 30}, {8, 8, 8}, {99}, {50, 49}};
  for (const auto& chunks : cuts) BOOST_TEST(logits_of(llama, 100, chunks) == whole);
}

BOOST_DATA_TEST_CASE(company_changes_no_bit, boost::unit_test::data::make({0, 1}), which) {
  RandomLlama llama(nlohmann::json::object(), "cpu", kDTypes[which]);
  const auto alone = logits_of(llama, 40, {});
  StepRunner runner(llama.model, *llama.device, 128);
  auto decoding = runner.start(some_prompt(11, 3));
  auto half_done = runner.start(some_prompt(50, 4));
  auto subject = runner.start(some_prompt(40, 1));
  runner.generate(decoding, 5, 11);
  runner.step({{&half_done, 20}});
  // Sampled, not yet complete, sampled: rows 0 and 1 of the logits are those of `decoding` and
  // `subject`.
  const auto logits = runner.logits({{&decoding, 1}, {&half_done, 20}, {&subject, 40}});
  BOOST_REQUIRE_EQUAL(logits.size(), 2U * 1024);
  BOOST_TEST(std::vector<float>(logits.begin() + 1024, logits.end()) == alone);
}

BOOST_AUTO_TEST_CASE(decoding_equals_prefill_of_the_same_tokens) {
  RandomLlama llama(nlohmann::json::object(), "cpu", DType::kF32);
  StepRunner runner(llama.model, *llama.device, 128);
  auto sequence = runner.start(some_prompt(30, 1));
  runner.generate(sequence, 20, 30);
  Prompt all;
  all.token_ids = sequence.tokens;
  auto again = runner.start(all);
  BOOST_TEST(runner.logits({{&again, 50}}) == runner.logits({{&sequence, 1}}));
}

BOOST_AUTO_TEST_CASE(more_samples_than_the_logits_area_holds) {
  RandomLlama llama(nlohmann::json::object(), "cpu", DType::kF32);
  StepRunner runner(llama.model, *llama.device, 256);
  std::vector<StepRunner::Sequence> sequences;
  std::vector<StepRunner::Share> shares;
  for (int32_t i = 0; i < 130; ++i) sequences.push_back(runner.start(some_prompt(1 + i % 2, i)));
  for (auto& sequence : sequences) shares.emplace_back(&sequence, std::ssize(sequence.tokens));
  runner.step(shares);
  for (int32_t i = 0; i < 130; ++i) {
    StepRunner alone(llama.model, *llama.device, 1);
    auto sequence = alone.start(some_prompt(1 + i % 2, i));
    alone.generate(sequence, 1, 2);
    BOOST_TEST(sequence.output() == sequences[static_cast<size_t>(i)].output(), "sequence " << i);
  }
}

BOOST_AUTO_TEST_CASE(cpu_device_agrees_with_plain_loops) {
  const nlohmann::json configs[] = {
      nlohmann::json::object(),
      {{"tie_word_embeddings", true}},
      {{"model_type", "qwen2"}},
      {{"hidden_size", 100},
       {"num_attention_heads", 5},
       {"num_key_value_heads", 1},
       {"head_dim", 20}},
      {{"intermediate_size", 75}, {"num_key_value_heads", 6}, {"num_hidden_layers", 1}},
      {{"head_dim", 40},
       {"vocab_size", 1003},
       {"rope_scaling",
        {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}}}},
  };
  for (const auto& config : configs) {
    for (const DType dtype : kDTypes) {
      RandomLlama cpu(config, "cpu", dtype);
      RandomLlama reference(config, "reference", dtype);
      const auto a = logits_of(cpu, 70, {});
      const auto b = logits_of(reference, 70, {33});
      BOOST_REQUIRE_EQUAL(a.size(), b.size());
      float most = 0;
      for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
      // A bfloat16 cache rounds keys that differ in the last bits of float32 to different
      // neighbours now and then.
      BOOST_TEST(most < (dtype == DType::kF32 ? 2e-4F : 5e-2F), config.dump()
                                                                    << " differs by " << most);
    }
  }
}

BOOST_AUTO_TEST_CASE(qwen2_has_biases_of_its_own) {
  RandomLlama qwen({{"model_type", "qwen2"}}, "cpu", DType::kF32);
  BOOST_TEST(qwen.model.spec.architecture == "Qwen2ForCausalLM");
  BOOST_TEST(qwen.model.spec.n_position_axes == 1);
  BOOST_TEST(!qwen.model.spec.has_vision);

  const std::pair<nlohmann::json, const char*> wrong[] = {
      {{{"use_sliding_window", true}}, "config.json: use_sliding_window true is not supported"},
      {{{"num_hidden_layers", nullptr}}, "config.json: num_hidden_layers is missing"},
      {{{"num_key_value_heads", 4}},
       "config.json: num_key_value_heads is 4, which does not divide"},
      {{{"hidden_act", "gelu"}}, "config.json: hidden_act \"gelu\" is not supported"},
      {{{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}}}},
       "config.json: rope_scaling.type \"mrope\" is not supported"},
  };
  for (const auto& [change, message] : wrong) {
    TempDir dir;
    write_random_llama(dir.path(), {{"model_type", "qwen2"}}, 7);
    edit_json(dir.path() / "config.json", [&](nlohmann::json& json) { json.update(change); });
    const auto refused = load_model({.path = dir.path(), .language_devices = {qwen.device.get()}});
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST(message_of(refused).starts_with(message), message_of(refused));
  }
  // Llama's config on the same weights leaves the biases out.
  RandomLlama llama(nlohmann::json::object(), "cpu", DType::kF32);
  TempDir dir;
  write_random_llama(dir.path(), {{"model_type", "qwen2"}}, 7);
  edit_json(dir.path() / "config.json", [](nlohmann::json& json) {
    json.update({{"model_type", "llama"}, {"architectures", {"LlamaForCausalLM"}}});
  });
  auto without = load_model({.path = dir.path(),
                             .dtype = DType::kF32,
                             .block_size = 8,
                             .max_step_tokens = 256,
                             .language_devices = {llama.device.get()}});
  BOOST_REQUIRE_MESSAGE(without.has_value(), message_of(without));
  llama.model = std::move(*without);
  BOOST_TEST(logits_of(llama, 40, {}) != logits_of(qwen, 40, {}));
}

BOOST_AUTO_TEST_CASE(step_without_samples_only_fills_the_cache) {
  RandomLlama llama(nlohmann::json::object(), "cpu", DType::kF32);
  const auto expected = logits_of(llama, 20, {});  // with a cache of its own
  StepRunner runner(llama.model, *llama.device, 16);
  auto sequence = runner.start(some_prompt(20, 1));
  BOOST_TEST(runner.logits({{&sequence, 10}}).empty());
  BOOST_TEST(runner.logits({{&sequence, 10}}) == expected);
}

BOOST_AUTO_TEST_CASE(ids_beyond_the_tokenizer_are_never_sampled) {
  RandomLlama llama(nlohmann::json::object(), "cpu", DType::kF32);
  BOOST_TEST(llama.model.spec.vocab_size == 1002);
  StepRunner runner(llama.model, *llama.device, 128);
  for (int32_t i = 0; i < 20; ++i) {
    auto sequence = runner.start(some_prompt(5, i));
    runner.generate(sequence, 8, 5);
    for (const int32_t id : sequence.output()) BOOST_TEST(id < 1002);
    for (const int32_t block : sequence.blocks) BOOST_TEST(block < 128);
  }
}

BOOST_AUTO_TEST_CASE(pictures_are_refused_by_a_text_model) {
  RandomLlama llama(nlohmann::json::object(), "cpu", DType::kF32);
  BOOST_TEST(!llama.model.spec.has_vision);
  BOOST_TEST((llama.model.towers.empty()));
  ChatInput input;
  input.messages.push_back(
      {"user", {{ChatPart::Kind::kImage, ""}, {ChatPart::Kind::kText, "what is it?"}}});
  const auto prompt = llama.model.prompts->chat(input, {std::make_shared<ImagePatches>()});
  BOOST_REQUIRE(!prompt.has_value());
  BOOST_TEST((prompt.error().kind == ErrorKind::kUnsupported));
  BOOST_TEST(prompt.error().code == "images_not_supported");
  BOOST_TEST(!llama.model.prompts->preprocess(Image{}, {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
