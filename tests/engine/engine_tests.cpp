// Requests give exactly the tokens of the known model on one device or two, with pictures, several
// choices and their parameters, and end where they should.
#include <boost/test/unit_test.hpp>

#include "engine/engine.h"
#include "engine/engine_requests.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(engine_tests)

BOOST_AUTO_TEST_CASE(a_text_request_gives_the_models_tokens) {
  EngineFixture fixture;
  const GenerateRequest request = long_request(text_prompt(21, 1), 40);
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *sink);
  BOOST_TEST(sink->timings.queue_us >= 0);
  BOOST_TEST(sink->timings.prefill_us >= 0);
  BOOST_TEST(sink->timings.decode_us >= 0);
  BOOST_TEST(sink->timings.total_us >= sink->timings.first_token_us);
  BOOST_TEST(sink->timings.encode_us == -1);
}

BOOST_AUTO_TEST_CASE(a_picture_request_gives_the_models_tokens_on_one_device_and_on_two) {
  for (const bool two_devices : {false, true}) {
    EngineFixture fixture(small_config(), two_devices);
    const GenerateRequest request = long_request(picture_prompt(77), 20);
    const auto sink = fixture.submit(request);
    fixture.run_until_idle();
    check_result(request, *sink, two_devices ? "two devices" : "one device");
    BOOST_TEST(sink->timings.encode_us >= 0);
    const int64_t bytes = two_devices ? 13 * kDim * 4 : 0;
    BOOST_TEST(sink->timings.transfer_bytes == bytes);
    BOOST_TEST(fixture.engine->stats().transfer_bytes == bytes);
    BOOST_TEST(sink->timings.transfer_path == (two_devices ? "peer" : ""));
    BOOST_TEST((sink->timings.transfer_us >= 0) == two_devices);
    BOOST_TEST(fixture.device0.n_overlaps == 0);
    BOOST_TEST(fixture.device1.n_overlaps == 0);
  }
}

BOOST_AUTO_TEST_CASE(positions_of_several_axes_reach_the_model) {
  EngineFixture fixture(small_config(), false, true, 3);
  const GenerateRequest request = long_request(picture_prompt(78, 3), 20);
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *sink, "", 3);
}

BOOST_AUTO_TEST_CASE(a_chunk_may_end_anywhere_in_a_picture) {
  const Prompt prompt =
      make_prompt({text_part(tokens(40, 3)), picture_part(9, 391), text_part(tokens(10, 4)),
                   picture_part(9, 391), text_part(tokens(7, 5))});
  const GenerateRequest request = long_request(prompt, 12);
  for (const int32_t chunk : {1, 27, 63, 64, 391, 392, 4096}) {
    for (const bool two_devices : {false, true}) {
      EngineConfig config = small_config();
      config.max_num_batched_tokens = chunk;
      config.embedding_cache_rows = 400;
      EngineFixture fixture(config, two_devices);
      const auto sink = fixture.submit(request);
      fixture.run_until_idle();
      check_result(request, *sink, "chunk " + std::to_string(chunk));
      BOOST_TEST(fixture.fake.language->max_tokens_seen <= chunk);
      BOOST_TEST(fixture.fake.vision->n_images == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(several_axes_go_with_chunks_preemption_and_the_prefix_cache) {
  const Prompt prompt = make_prompt(
      {text_part(tokens(10, 3)), picture_part(9, 31), text_part(tokens(5, 4)), picture_part(8, 20)},
      3);
  for (const int32_t chunk : {1, 7, 12, 64}) {
    EngineConfig config = small_config();
    config.max_num_batched_tokens = chunk;
    config.kv_blocks = 40;  // two of the three requests at a time
    EngineFixture fixture(config, false, true, 3);
    std::vector<GenerateRequest> requests;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (uint32_t i = 0; i < 3; ++i) {
      requests.push_back(long_request(i < 2 ? prompt : picture_prompt(7, 3), 60));
      requests.back().seed = i;
      requests.back().temperature = 1;
      sinks.push_back(fixture.submit(requests.back()));
    }
    fixture.run_until_idle();
    const auto again = fixture.submit(requests[0]);
    fixture.run_until_idle();
    for (size_t i = 0; i < requests.size(); ++i)
      check_result(requests[i], *sinks[i], "chunk " + std::to_string(chunk), 3);
    check_result(requests[0], *again, "again, chunk " + std::to_string(chunk), 3);
    BOOST_TEST(again->usage.cached_tokens > 0);
  }
}

BOOST_AUTO_TEST_CASE(penalties_count_prompt_and_output_but_no_image_placeholders) {
  EngineConfig config = small_config();
  config.max_num_batched_tokens = 5;
  EngineFixture fixture(config);
  GenerateRequest request = long_request(picture_prompt(77), 20);
  request.n_choices = 2;
  request.temperature = 1;
  request.repetition_penalty = 1.25F;
  request.frequency_penalty = 0.5F;
  request.presence_penalty = -0.5F;
  GenerateRequest other = long_request(text_prompt(9, 4), 20);
  int n_seen = 0;
  std::vector<std::string> faults;
  fixture.fake.language->on_step = [&](const LanguageStep& step) {
    for (const SamplingRow& row : step.sampling) {
      if (row.repetition_penalty == 1) {
        if (row.n_counts != 0) faults.push_back("counts without a penalty");
        continue;
      }
      ++n_seen;
      std::map<int32_t, int32_t> wanted;
      for (const int32_t id : request.prompt.token_ids)
        if (id != kImageToken) wanted[id] = 0;
      const auto outputs = expected_tokens(request, static_cast<int32_t>(row.choice),
                                           static_cast<int32_t>(row.position));
      for (const SampledToken& token : outputs) ++wanted[token.id];
      std::map<int32_t, int32_t> got;
      for (int32_t i = 0; i < row.n_counts; ++i)
        if (!got.emplace(row.counts[i].id, row.counts[i].n_output).second)
          faults.push_back("an id twice");
      if (got != wanted) faults.push_back("counts of output token " + std::to_string(row.position));
      if (row.frequency_penalty != 0.5F || row.presence_penalty != -0.5F)
        faults.push_back("penalties");
    }
  };
  const auto sink = fixture.submit(request);
  const auto other_sink = fixture.submit(other);
  fixture.run_until_idle();
  for (const std::string& fault : faults) BOOST_TEST_MESSAGE(fault);
  BOOST_TEST(faults.empty());
  BOOST_TEST(n_seen == 40);
  check_result(request, *sink);
  check_result(other, *other_sink);
}

BOOST_AUTO_TEST_CASE(parameters_belong_to_each_request_of_a_batch) {
  EngineFixture fixture;
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const float temperatures[] = {0.0F, 1e-8F, 1.0F, 2.0F};
  for (uint32_t i = 0; i < 8; ++i) {
    GenerateRequest request = make_request(text_prompt(10, i / 4), 30, temperatures[i % 4], 42);
    request.n_logprobs = static_cast<int32_t>(i) - 1;
    requests.push_back(request);
    sinks.push_back(fixture.submit(request));
  }
  fixture.run_until_idle();
  for (size_t i = 0; i < requests.size(); ++i) {
    check_result(requests[i], *sinks[i], "request " + std::to_string(i));
  }
}

BOOST_AUTO_TEST_CASE(several_choices_share_the_prompts_blocks) {
  for (const bool prefix_cache : {true, false}) {
    for (const int32_t n_prompt : {1, 3, 4, 5, 16, 33}) {
      EngineConfig config = small_config();
      config.prefix_cache = prefix_cache;
      EngineFixture fixture(config);
      GenerateRequest request = long_request(text_prompt(n_prompt, 8), 9);
      request.n_choices = 3;
      request.temperature = 1;
      const auto sink = fixture.submit(request);
      fixture.run_until_idle();
      check_result(request, *sink, "prompt of " + std::to_string(n_prompt));
      BOOST_TEST((sink->choices[0].text != sink->choices[1].text));
      // The first choice runs the prompt; the others its last, partial block at most.
      BOOST_TEST(fixture.fake.language->n_tokens <= n_prompt + 3 * 8 + 2 * 4);
      BOOST_TEST(sink->usage.cached_tokens == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(requests_are_counted_not_their_choices) {
  EngineConfig config = small_config();
  config.max_num_seqs = 3;
  EngineFixture fixture(config);
  GenerateRequest request = long_request(text_prompt(5, 8), 9);
  request.n_choices = 3;
  const auto first = fixture.submit(request);
  fixture.run_until([&] { return first->choices.size() == 3; });
  BOOST_TEST(fixture.engine->stats().running == 1);
  BOOST_TEST(fixture.engine->stats().waiting == 0);
  const auto second = fixture.submit(request);  // the batch has no room
  BOOST_TEST(fixture.engine->stats().running == 1);
  BOOST_TEST(fixture.engine->stats().waiting == 1);
  fixture.run_until_idle();
  check_result(request, *second);
}

BOOST_AUTO_TEST_CASE(further_choices_may_need_a_picture_again) {
  for (const int32_t tail : {1, 2, 3, 4, 5}) {
    EngineFixture fixture(small_config(), true);
    GenerateRequest request = long_request(
        make_prompt({text_part(tokens(3, 1)), picture_part(5, 10), text_part(tokens(tail, 2))}), 6);
    request.n_choices = 3;
    request.temperature = 1;
    const auto sink = fixture.submit(request);
    fixture.run_until_idle();
    check_result(request, *sink, "tail of " + std::to_string(tail));
    BOOST_TEST(fixture.fake.vision->n_images == 1);
  }
}

// ---- ends

BOOST_AUTO_TEST_CASE(an_end_token_in_the_last_place_is_a_stop) {
  // Find a request whose end token comes after a few tokens.
  for (uint32_t seed = 1;; ++seed) {
    BOOST_REQUIRE(seed < 1000);
    GenerateRequest request = make_request(text_prompt(5, seed), 30);
    const std::vector<SampledToken> all = expected_tokens(request, 0, 30);
    const auto end = std::ranges::find(all, kEos, &SampledToken::id);
    if (end == all.end() || end - all.begin() < 2) continue;
    EngineFixture fixture;
    request.max_tokens = static_cast<int32_t>(end - all.begin()) + 1;
    const auto exact = fixture.submit(request);
    GenerateRequest shorter = request;
    --shorter.max_tokens;
    const auto cut = fixture.submit(shorter);
    GenerateRequest ignoring = request;
    ignoring.ignore_eos = true;
    ignoring.max_tokens += 3;
    ignoring.skip_special_tokens = false;
    const auto ignored = fixture.submit(ignoring);
    fixture.run_until_idle();
    BOOST_TEST((exact->choices[0].finish == FinishReason::kStop));
    BOOST_TEST(exact->choices[0].n_tokens == request.max_tokens);
    BOOST_TEST((cut->choices[0].finish == FinishReason::kLength));
    BOOST_TEST(cut->choices[0].text == exact->choices[0].text);
    BOOST_TEST((ignored->choices[0].finish == FinishReason::kLength));
    BOOST_TEST(ignored->choices[0].n_tokens == ignoring.max_tokens);
    BOOST_TEST(ignored->choices[0].text.find("<1>") != std::string::npos);
    return;
  }
}

BOOST_AUTO_TEST_CASE(a_stop_token_id_ends_the_choice_and_is_not_shown) {
  GenerateRequest request = long_request(text_prompt(5, 3), 30);
  const std::vector<SampledToken> all = expected_tokens(request, 0, 30);
  request.stop_token_ids = {all[4].id, 60};
  EngineFixture fixture;
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *sink);
  BOOST_TEST((sink->choices[0].finish == FinishReason::kStop));
  BOOST_TEST(sink->choices[0].n_tokens <= 5);
}

BOOST_AUTO_TEST_CASE(a_choice_stops_at_a_stop_string_while_the_others_go_on) {
  GenerateRequest request = long_request(text_prompt(7, 4), 40);
  request.temperature = 1;
  request.n_choices = 3;
  request.stops = {expected_choice(request, 1, 40).text.substr(10, 3)};
  EngineFixture fixture;
  const auto sink = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *sink);
  BOOST_TEST((sink->choices[1].finish == FinishReason::kStop));
  BOOST_TEST(sink->choices[1].stop == request.stops[0]);
}

BOOST_AUTO_TEST_SUITE_END()
