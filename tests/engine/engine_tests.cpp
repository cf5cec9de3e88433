// Requests give exactly the tokens of the known model whatever else runs: batched, chunked,
// preempted, from the caches, on one device or two; and every way in which a request can end is
// reported once and leaves nothing held.
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/engine.h"
#include "engine/engine_fixture.h"

using namespace hs;
using namespace hs::test;

namespace {

std::vector<int32_t> tokens(int32_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(3 + random() % 58));
  return ids;
}

Prompt text_prompt(int32_t n, uint32_t seed) {
  return make_prompt({text_part(tokens(n, seed))});
}

Prompt picture_prompt(uint64_t picture, int32_t n_axes = 1) {
  return make_prompt({text_part(tokens(6, 5)), picture_part(picture, 13), text_part(tokens(9, 6))},
                     n_axes);
}

GenerateRequest long_request(Prompt prompt, int32_t n) {
  GenerateRequest request = make_request(std::move(prompt), n);
  request.ignore_eos = true;
  return request;
}

}  // namespace

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

BOOST_AUTO_TEST_CASE(a_repeated_prompt_comes_from_the_prefix_cache_with_the_same_result) {
  EngineFixture fixture;
  const GenerateRequest request = long_request(picture_prompt(31), 12);
  const auto first = fixture.submit(request);
  fixture.run_until_idle();
  const int run_before = fixture.fake.language->n_tokens;
  const auto second = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *first);
  check_result(request, *second);
  BOOST_TEST(first->usage.cached_tokens == 0);
  BOOST_TEST(second->usage.cached_tokens == 24);  // of 28; one token at least has to be run
  BOOST_TEST(first->n_prompt_cached == 0);
  BOOST_TEST(second->n_prompt_cached == 24);  // told before the first text
  BOOST_TEST(fixture.fake.language->n_tokens - run_before == 4 + 11);
  BOOST_TEST(fixture.fake.vision->n_images == 1);
  BOOST_TEST(fixture.engine->stats().prefix_hits == 24);
}

BOOST_AUTO_TEST_CASE(a_conversation_goes_on_from_the_blocks_of_its_answer) {
  EngineFixture fixture;
  const GenerateRequest request = long_request(text_prompt(10, 2), 11);
  const auto first = fixture.submit(request);
  fixture.run_until_idle();
  std::vector<int32_t> conversation = request.prompt.token_ids;
  for (const SampledToken& token : expected_tokens(request, 0, 11))
    conversation.push_back(token.id);
  for (const int32_t id : tokens(5, 3)) conversation.push_back(id);
  const GenerateRequest next = long_request(make_prompt({text_part(conversation)}), 5);
  const auto second = fixture.submit(next);
  fixture.run_until_idle();
  check_result(next, *second);
  BOOST_TEST(second->usage.cached_tokens == 20);
}

BOOST_AUTO_TEST_CASE(two_pictures_of_equal_size_never_share_blocks) {
  EngineFixture fixture;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<GenerateRequest> requests;
  for (const uint64_t picture : {1U, 2U, 1U}) {
    requests.push_back(long_request(picture_prompt(picture), 8));
    sinks.push_back(fixture.submit(requests.back()));
    fixture.run_until_idle();
  }
  for (size_t i = 0; i < 3; ++i) check_result(requests[i], *sinks[i]);
  BOOST_TEST((sinks[0]->choices[0].text != sinks[1]->choices[0].text));
  BOOST_TEST(sinks[1]->usage.cached_tokens == 4);  // the block before the picture
  BOOST_TEST(sinks[2]->usage.cached_tokens == 24);
}

BOOST_AUTO_TEST_CASE(the_same_picture_is_encoded_once_for_all_who_wait_for_it) {
  EngineFixture fixture;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const GenerateRequest request = long_request(picture_prompt(4), 6);
  for (int i = 0; i < 12; ++i) sinks.push_back(fixture.submit(request));
  fixture.run_until_idle();
  for (const auto& sink : sinks) check_result(request, *sink);
  BOOST_TEST(fixture.fake.vision->n_images == 1);
}

BOOST_AUTO_TEST_CASE(preempted_requests_give_what_they_give_alone) {
  for (const bool prefix_cache : {true, false}) {
    EngineConfig config = small_config();
    config.kv_blocks = 64;
    config.max_num_batched_tokens = 64;
    config.prefix_cache = prefix_cache;
    config.embedding_cache_rows = 260;
    EngineFixture fixture(config, true, true, 1, 16);
    std::vector<GenerateRequest> requests;
    for (uint32_t i = 0; i < 6; ++i) {
      Prompt prompt = i < 2 ? make_prompt({text_part(tokens(20, i)), picture_part(i + 1, 150),
                                           text_part(tokens(30, i + 50))})
                            : text_prompt(200, i);
      GenerateRequest request = make_request(std::move(prompt), 200, i % 2 == 0 ? 0.0F : 1.0F, i);
      request.ignore_eos = true;
      request.n_logprobs = i == 3 ? 2 : -1;
      if (i == 4) request.n_choices = 2;
      if (i == 5) request.stops = {"zzzz"};
      requests.push_back(std::move(request));
    }
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const GenerateRequest& request : requests) sinks.push_back(fixture.submit(request));
    fixture.run_until_idle();
    for (size_t i = 0; i < requests.size(); ++i) {
      check_result(requests[i], *sinks[i], "request " + std::to_string(i));
    }
    BOOST_TEST(fixture.engine->stats().preemptions > 0);
  }
}

// Random requests at random moments against random configurations, some cancelled on the way.
BOOST_AUTO_TEST_CASE(results_do_not_depend_on_the_schedule) {
  const uint32_t first_seed = hs::test::test_seed();
  for (uint32_t round = 0; round < 60; ++round) {
    const uint32_t seed = first_seed + round;
    std::mt19937 random(seed);
    const auto draw = [&](int32_t low, int32_t high) {
      return static_cast<int32_t>(
          low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1)));
    };
    const int32_t block_size = draw(1, 9);
    EngineConfig config{.max_model_len = 200,
                        .max_num_seqs = draw(1, 9),
                        .max_num_batched_tokens = draw(1, 70),
                        .kv_blocks = draw(80, 240) / block_size + 8,
                        .max_queue = 64,
                        .max_encode_images = draw(1, 4),
                        .embedding_cache_rows = draw(20, 60),
                        .prefix_cache = draw(0, 3) > 0};
    BOOST_TEST_CONTEXT("seed " << seed) {
      EngineFixture fixture(config, draw(0, 1) == 1, true, 1, block_size);
      struct Sent {
        GenerateRequest request;
        std::shared_ptr<RecordingSink> sink;
        RequestId id;
        bool cancelled;
      };
      std::vector<Sent> sent;
      while (sent.size() < 14) {
        std::vector<PromptPart> parts;
        const int32_t n_parts = draw(1, 4);
        for (int32_t i = 0; i < n_parts; ++i) {
          parts.push_back(text_part(tokens(draw(1, 12), static_cast<uint32_t>(draw(1, 2)))));
          if (draw(0, 1) == 0) {
            const int32_t picture = draw(1, 5);
            parts.push_back(picture_part(static_cast<uint64_t>(picture), 1 + picture * 4 % 19));
          }
        }
        GenerateRequest request = make_request(make_prompt(parts), draw(1, 30),
                                               static_cast<float>(draw(0, 1)), random() % 3);
        request.n_choices = draw(0, 3) == 0 ? draw(2, 4) : 1;
        request.n_logprobs = draw(-1, 2);
        request.ignore_eos = draw(0, 1) == 1;
        if (draw(0, 3) == 0) request.stops = {"a", "bcd"};
        const auto context = static_cast<int32_t>(request.prompt.token_ids.size()) + 30;
        if (context > std::min(200, config.kv_blocks * block_size)) continue;
        const auto sink = fixture.submit(request);
        sent.push_back({std::move(request), sink, fixture.last_id, false});
        const int32_t n_polls = draw(0, 4);
        for (int32_t i = 0; i < n_polls && !fixture.engine->idle(); ++i) {
          BOOST_REQUIRE(fixture.wake.wait());
          fixture.engine->poll();
        }
        if (draw(0, 6) == 0) {
          Sent& victim = sent[random() % sent.size()];
          victim.cancelled = true;
          fixture.engine->cancel(victim.id);
        }
      }
      fixture.run_until_idle();
      for (const Sent& one : sent) {
        if (one.cancelled && one.sink->error) {
          BOOST_TEST(one.sink->n_done == 1);
          BOOST_TEST(one.sink->faults.empty());
        } else {
          check_result(one.request, *one.sink);
        }
      }
      BOOST_TEST(fixture.device0.n_overlaps == 0);
      BOOST_TEST(fixture.device1.n_overlaps == 0);
      BOOST_TEST(fixture.fake.language->max_tokens_seen <= config.max_num_batched_tokens);
    }
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

// ---- cancellation

BOOST_AUTO_TEST_CASE(cancelling_a_queued_request_leaves_no_trace) {
  EngineFixture fixture;
  const auto sink = fixture.submit(long_request(picture_prompt(1), 5));
  fixture.engine->cancel(fixture.last_id);
  BOOST_TEST(sink->n_done == 0);  // not from inside cancel()
  fixture.run_until_idle();
  BOOST_TEST(sink->n_done == 1);
  BOOST_REQUIRE(sink->error);
  BOOST_TEST((sink->error->kind == ErrorKind::kCancelled));
  BOOST_TEST(sink->choices.empty());
  BOOST_TEST(fixture.fake.vision->n_calls == 0);
  BOOST_TEST(fixture.fake.language->n_steps == 0);
}

BOOST_AUTO_TEST_CASE(cancelling_while_its_picture_is_encoded_waits_for_the_lane) {
  for (const bool two_devices : {false, true}) {
    EngineFixture fixture(small_config(), two_devices);
    fixture.fake.vision->gate.close();
    const auto sink = fixture.submit(long_request(picture_prompt(1), 5));
    fixture.engine->poll();
    BOOST_REQUIRE(fixture.fake.vision->gate.wait_for_visitor());
    fixture.engine->cancel(fixture.last_id);
    fixture.engine->poll();
    BOOST_TEST(sink->n_done == 1);
    BOOST_TEST(!fixture.engine->idle());
    fixture.fake.vision->gate.open();
    fixture.run_until_idle();
    // The picture was good: the next request finds it.
    const GenerateRequest again = long_request(picture_prompt(1), 5);
    const auto next = fixture.submit(again);
    fixture.run_until_idle();
    check_result(again, *next);
    BOOST_TEST(fixture.fake.vision->n_images == 1);
  }
}

BOOST_AUTO_TEST_CASE(cancelling_in_a_step_frees_its_blocks_when_the_step_is_done) {
  EngineFixture fixture;
  fixture.fake.language->gate.close();
  const auto sink = fixture.submit(long_request(text_prompt(30, 1), 5));  // two chunks
  const RequestId first = fixture.last_id;
  const GenerateRequest other = long_request(text_prompt(8, 2), 9);
  const auto other_sink = fixture.submit(other);
  fixture.engine->poll();
  BOOST_REQUIRE(fixture.fake.language->gate.wait_for_visitor());
  fixture.engine->cancel(first);
  fixture.engine->cancel(first);
  fixture.engine->poll();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST(fixture.engine->stats().kv_blocks_used > 0);
  fixture.fake.language->gate.open();
  fixture.run_until_idle();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST(sink->choices.empty());
  check_result(other, *other_sink);
  fixture.engine->cancel(first);  // unknown by now
  fixture.run_until_idle();
}

BOOST_AUTO_TEST_CASE(a_sink_may_cancel_its_own_request_from_a_call) {
  EngineFixture fixture;
  GenerateRequest request = long_request(text_prompt(9, 1), 500);
  request.n_choices = 2;
  request.temperature = 1;
  const auto sink = fixture.submit(request);
  const RequestId id = fixture.last_id;
  sink->after_text = [&] {
    if (sink->choices[0].n_tokens == 5) fixture.engine->cancel(id);
  };
  fixture.run_until_idle();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST(sink->faults.empty());
  BOOST_REQUIRE(sink->error);
  BOOST_TEST((sink->error->kind == ErrorKind::kCancelled));
  BOOST_TEST(sink->choices[0].n_tokens <= 6);  // within one step
  BOOST_TEST(sink->usage.completion_tokens >= 5);
}

BOOST_AUTO_TEST_CASE(an_engine_may_go_while_its_lanes_work) {
  const auto sink = std::make_shared<RecordingSink>();
  {
    EngineFixture fixture(small_config(), true);
    BOOST_REQUIRE(fixture.engine->submit(long_request(picture_prompt(1), 500), sink));
    for (int i = 0; i < 5; ++i) {
      fixture.engine->poll();
      BOOST_REQUIRE(fixture.wake.wait());
    }
  }
  BOOST_TEST(sink->n_done == 0);
}

// ---- faults

BOOST_AUTO_TEST_CASE(a_failed_step_ends_its_requests_and_the_engine_goes_on) {
  EngineFixture fixture;
  fixture.fake.language->fail_step = 3;
  const GenerateRequest request = long_request(text_prompt(9, 1), 20);
  const auto lost = fixture.submit(request);
  fixture.run_until([&] { return lost->done(); });
  BOOST_REQUIRE(lost->error);
  BOOST_TEST(lost->error->code == "engine_error");
  BOOST_TEST(lost->error->message.find("lost") != std::string::npos);
  BOOST_TEST(lost->choices[0].n_tokens == 3);
  const auto next = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *next);
  BOOST_TEST(fixture.engine->stats().step_failures == 1);
}

BOOST_AUTO_TEST_CASE(a_failed_encode_ends_all_who_wait_for_the_picture) {
  for (const bool two_devices : {false, true}) {
    EngineFixture fixture(small_config(), two_devices);
    fixture.fake.vision->fail_call = 0;
    const GenerateRequest request = long_request(picture_prompt(1), 5);
    const GenerateRequest text = long_request(text_prompt(9, 1), 20);
    const auto lost = fixture.submit(request);
    const auto lost_too = fixture.submit(request);
    const auto other = fixture.submit(text);
    fixture.run_until_idle();
    for (const auto& sink : {lost, lost_too}) {
      BOOST_TEST(sink->n_done == 1);
      BOOST_REQUIRE(sink->error);
      BOOST_TEST(sink->error->code == "engine_error");
    }
    check_result(text, *other);
    const auto next = fixture.submit(request);
    fixture.run_until_idle();
    check_result(request, *next);
  }
}

BOOST_AUTO_TEST_CASE(a_picture_that_is_not_finite_fails_its_request_alone_and_is_not_cached) {
  for (const bool two_devices : {false, true}) {
    EngineFixture fixture(small_config(), two_devices);
    fixture.fake.vision->nan_picture = 2;
    fixture.fake.vision->gate.close();  // so that all pictures but the first share an order
    std::vector<GenerateRequest> requests;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const uint64_t picture : {1U, 2U, 3U, 4U}) {
      requests.push_back(long_request(picture_prompt(picture), 5));
      sinks.push_back(fixture.submit(requests.back()));
    }
    fixture.engine->poll();
    fixture.fake.vision->gate.open();
    fixture.run_until_idle();
    for (const size_t good : {0U, 2U, 3U}) check_result(requests[good], *sinks[good]);
    BOOST_REQUIRE(sinks[1]->error);
    BOOST_TEST(sinks[1]->error->code == "engine_error");
    BOOST_TEST(fixture.engine->stats().non_finite_images == 1);
    fixture.fake.vision->nan_picture = 0;
    const auto next = fixture.submit(requests[1]);
    fixture.run_until_idle();
    check_result(requests[1], *next);
  }
}

BOOST_AUTO_TEST_CASE(a_failed_transfer_ends_its_requests_and_the_engine_goes_on) {
  EngineFixture fixture(small_config(), true);
  fixture.device1.fail_copies = true;
  const GenerateRequest request = long_request(picture_prompt(1), 5);
  const auto lost = fixture.submit(request);
  fixture.run_until([&] { return lost->done(); });
  BOOST_REQUIRE(lost->error);
  BOOST_TEST(lost->error->code == "engine_error");
  fixture.device1.fail_copies = false;
  const auto next = fixture.submit(request);
  fixture.run_until_idle();
  check_result(request, *next);
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_fail_their_request_alone) {
  EngineFixture fixture;
  fixture.fake.language->nan_seed = 666;
  GenerateRequest bad = make_request(text_prompt(9, 1), 20, 1, 666);
  bad.n_choices = 2;
  const GenerateRequest good = long_request(text_prompt(9, 1), 20);
  const auto bad_sink = fixture.submit(bad);
  const auto good_sink = fixture.submit(good);
  fixture.run_until_idle();
  BOOST_TEST(bad_sink->n_done == 1);
  BOOST_REQUIRE(bad_sink->error);
  BOOST_TEST(bad_sink->error->code == "engine_error");
  check_result(good, *good_sink);
  // What it computed is not used again.
  const auto again = fixture.submit(long_request(text_prompt(9, 1), 20));
  fixture.run_until_idle();
  BOOST_TEST(fixture.engine->stats().non_finite_requests == 1);
}

// ---- sharing the device

BOOST_AUTO_TEST_CASE(a_long_prompt_does_not_stall_a_stream) {
  EngineFixture fixture;
  const GenerateRequest stream = long_request(text_prompt(4, 1), 60);
  const auto stream_sink = fixture.submit(stream);
  fixture.run_until([&] { return stream_sink->choices[0].n_tokens == 3; });
  const int steps_before = fixture.fake.language->n_steps;
  const GenerateRequest long_one = long_request(text_prompt(600, 2), 3);
  const auto long_sink = fixture.submit(long_one);
  fixture.run_until([&] { return stream_sink->done(); });
  // One token in every step.
  BOOST_TEST(fixture.fake.language->n_steps - steps_before <= 57 + 1);
  fixture.run_until_idle();
  check_result(stream, *stream_sink);
  check_result(long_one, *long_sink);
}

BOOST_AUTO_TEST_CASE(a_text_request_passes_one_whose_picture_is_not_there) {
  EngineFixture fixture(small_config(), true);
  fixture.fake.vision->gate.close();
  const GenerateRequest picture = long_request(picture_prompt(1), 5);
  const GenerateRequest text = long_request(text_prompt(9, 1), 20);
  const auto picture_sink = fixture.submit(picture);
  const auto text_sink = fixture.submit(text);
  fixture.run_until([&] { return text_sink->done(); });
  BOOST_TEST(!picture_sink->done());
  fixture.fake.vision->gate.open();
  fixture.run_until_idle();
  check_result(picture, *picture_sink);
  check_result(text, *text_sink);
}

BOOST_AUTO_TEST_CASE(the_prompt_runs_up_to_a_picture_that_is_still_encoded) {
  EngineFixture fixture(small_config(), true);
  fixture.fake.vision->gate.close();
  const GenerateRequest request = long_request(picture_prompt(1), 5);
  const auto sink = fixture.submit(request);
  fixture.run_until([&] { return fixture.fake.language->n_tokens == 6; });
  fixture.fake.vision->gate.open();
  fixture.run_until_idle();
  check_result(request, *sink);
}

BOOST_AUTO_TEST_SUITE_END()
