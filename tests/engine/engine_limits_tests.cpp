// What can never be served is refused at once by name, and memory is taken at the start or not at
// all.
#include <boost/test/unit_test.hpp>

#include "engine/engine.h"
#include "engine/engine_requests.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(engine_limits_tests)

BOOST_AUTO_TEST_CASE(max_tokens_is_clamped_to_the_context) {
  EngineConfig config = small_config();
  config.max_model_len = 256;
  EngineFixture fixture(config);
  GenerateRequest request = long_request(text_prompt(255, 4), 1'000'000'000);
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  request.max_tokens = 1;
  check_result(request, *sink);
  BOOST_TEST((sink->choices[0].finish == FinishReason::kLength));
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_context_is_refused_with_both_counts) {
  EngineConfig config = small_config();
  config.max_model_len = 256;
  EngineFixture fixture(config);
  const auto sink = std::make_shared<RecordingSink>();
  for (const int32_t n : {256, 257, 3000}) {
    const auto result = fixture.engine->submit(long_request(text_prompt(n, 4), 5), sink);
    BOOST_REQUIRE(!result);
    BOOST_TEST(result.error().code == "context_length_exceeded");
    BOOST_TEST(result.error().message.find(std::to_string(n)) != std::string::npos);
    BOOST_TEST(result.error().message.find("256") != std::string::npos);
  }
  BOOST_TEST(fixture.engine->idle());
  BOOST_TEST(sink->n_done == 0);
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_kv_pool_is_refused) {
  EngineConfig config = small_config();
  config.kv_blocks = 8;  // of 4 tokens
  EngineFixture fixture(config);
  const auto sink = std::make_shared<RecordingSink>();
  const auto refused = fixture.engine->submit(long_request(text_prompt(32, 4), 5), sink);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().code == "context_length_exceeded");
  BOOST_TEST(refused.error().message.find("KV cache") != std::string::npos);
  GenerateRequest fits = long_request(text_prompt(20, 4), 50);
  const auto taken = fixture.submit(fits);
  fixture.run_until_idle();
  fits.max_tokens = 12;
  check_result(fits, *taken);
}

BOOST_AUTO_TEST_CASE(a_picture_beyond_the_embedding_memory_is_refused) {
  EngineFixture fixture;
  const auto sink = std::make_shared<RecordingSink>();
  const auto refused = fixture.engine->submit(
      long_request(make_prompt({picture_part(1, 65), text_part(tokens(1, 1))}), 5), sink);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().message.find("65") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_full_queue_refuses_and_takes_again_later) {
  EngineConfig config = small_config();
  config.max_queue = 3;
  EngineFixture fixture(config);
  const GenerateRequest request = long_request(text_prompt(5, 1), 3);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(fixture.submit(request));
  const auto refused = fixture.engine->submit(request, std::make_shared<RecordingSink>());
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == ErrorKind::kResourceExhausted));
  fixture.engine->poll();  // all three are let in
  sinks.push_back(fixture.submit(request));
  fixture.run_until_idle();
  for (const auto& sink : sinks) check_result(request, *sink);
}

BOOST_AUTO_TEST_CASE(a_request_for_no_tokens_finishes_at_once) {
  EngineFixture fixture;
  GenerateRequest request = long_request(text_prompt(5, 1), 0);
  request.n_choices = 2;
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST(!sink->error);
  BOOST_TEST((sink->choices[1].finish == FinishReason::kLength));
  BOOST_TEST(sink->usage.prompt_tokens == 5);
  BOOST_TEST(fixture.fake.language->n_steps == 0);
}

BOOST_AUTO_TEST_CASE(malformed_requests_are_refused) {
  EngineFixture fixture(small_config(), false, false);
  const auto sink = std::make_shared<RecordingSink>();
  const auto refuses = [&](GenerateRequest request) {
    return !fixture.engine->submit(std::move(request), sink).has_value();
  };
  BOOST_TEST(refuses(make_request(Prompt{}, 5)));
  BOOST_TEST(refuses(make_request(make_prompt({text_part({3, kVocab})}), 5)));
  BOOST_TEST(refuses(make_request(make_prompt({text_part({-1})}), 5)));
  BOOST_TEST(refuses(make_request(text_prompt(5, 1), -1)));
  BOOST_TEST(refuses(make_request(picture_prompt(1), 5)));  // a model without a tower
  GenerateRequest no_choice = make_request(text_prompt(5, 1), 5);
  no_choice.n_choices = 0;
  BOOST_TEST(refuses(no_choice));
  BOOST_TEST(fixture.engine->idle());
}

BOOST_AUTO_TEST_CASE(wrong_configurations_name_the_field) {
  FakeDevice device;
  FakeModel fake(device, device);
  const SystemClock clock;
  const auto field_of = [&](EngineConfig config) {
    const auto made =
        Engine::create(fake.model, topology_of(fake, device, device), config, clock, [] {});
    return made ? std::string() : made.error().param;
  };
  EngineConfig config = small_config();
  BOOST_TEST(field_of(config) == "");
  config.kv_blocks = 0;
  BOOST_TEST(field_of(config) == "kv_blocks");
  config = small_config();
  config.max_num_seqs = -1;
  BOOST_TEST(field_of(config) == "max_num_seqs");
  config = small_config();
  config.max_model_len = 5000;
  BOOST_TEST(field_of(config) == "max_model_len");
}

BOOST_AUTO_TEST_CASE(memory_is_allocated_at_the_start_or_not_at_all) {
  for (const int failing : {0, 1, 2}) {
    FakeDevice vision_device;
    FakeDevice language_device(1);
    (failing == 2 ? vision_device : language_device).fail_allocation = failing % 2;
    if (failing == 2) vision_device.fail_allocation = 0;
    FakeModel fake(vision_device, language_device);
    const SystemClock clock;
    const auto made = Engine::create(fake.model, topology_of(fake, vision_device, language_device),
                                     small_config(), clock, [] {});
    BOOST_REQUIRE(!made);
    BOOST_TEST(made.error().message.find("out of memory") != std::string::npos);
  }
  EngineFixture fixture(small_config(), true);
  const int at_start = fixture.device0.n_allocations + fixture.device1.n_allocations;
  fixture.submit(long_request(picture_prompt(1), 20));
  fixture.run_until_idle();
  BOOST_TEST(fixture.device0.n_allocations + fixture.device1.n_allocations == at_start);
}

BOOST_AUTO_TEST_SUITE_END()
