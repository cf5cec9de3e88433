// Neither caches nor preemption nor the order of steps change what a request gives, and no request
// stands in the way of another for longer than it must.
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/engine.h"
#include "engine/engine_requests.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(engine_schedule_tests)

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
