// Cancelled requests, and those that a device fails, end once with a clear error, leave nothing
// held and leave the others alone.
#include <boost/test/unit_test.hpp>

#include "engine/engine.h"
#include "engine/engine_requests.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(engine_faults_tests)

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

// The copy stands behind a step of the language device's lane.
BOOST_AUTO_TEST_CASE(
    cancelling_while_its_rows_travel_ends_it_at_once_and_frees_all_after_the_copy) {
  EngineFixture fixture(small_config(), true);
  fixture.fake.language->gate.close();
  const GenerateRequest text = long_request(text_prompt(10, 1), 5);
  const auto good = fixture.submit(text);
  fixture.engine->poll();
  BOOST_REQUIRE(fixture.fake.language->gate.wait_for_visitor());
  const auto sink = fixture.submit(long_request(picture_prompt(1), 5));
  fixture.run_until([&] { return fixture.engine->stats().images_encoded == 1; });
  fixture.engine->cancel(fixture.last_id);
  fixture.engine->poll();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST(!fixture.engine->idle());
  fixture.fake.language->gate.open();
  fixture.run_until_idle();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST(fixture.engine->stats().kv_blocks_used == 0);
  check_result(text, *good);
  const GenerateRequest again = long_request(picture_prompt(1), 5);
  const auto next = fixture.submit(again);
  fixture.run_until_idle();
  check_result(again, *next);
}

BOOST_AUTO_TEST_CASE(cancelling_between_two_tokens_leaves_nothing_held) {
  EngineFixture fixture;
  const auto sink = fixture.submit(long_request(text_prompt(10, 1), 50));
  fixture.run_until([&] { return !sink->choices.empty() && sink->choices[0].n_tokens >= 3; });
  fixture.engine->cancel(fixture.last_id);
  fixture.run_until_idle();
  BOOST_TEST(sink->n_done == 1);
  BOOST_TEST((sink->error && sink->error->kind == ErrorKind::kCancelled));
  BOOST_TEST(sink->choices[0].n_tokens < 50);
  BOOST_TEST(fixture.engine->stats().kv_blocks_used == 0);
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

BOOST_AUTO_TEST_CASE(a_device_call_that_does_not_return_is_told_by_since_when) {
  EngineFixture fixture;
  const auto busy_since_us = [&] { return fixture.engine->stats().lanes.at(0).busy_since_us; };
  BOOST_TEST(busy_since_us() == -1);
  const int64_t before_us = fixture.clock.now_us();
  fixture.fake.language->gate.close();
  fixture.submit(long_request(text_prompt(8, 1), 5));
  fixture.engine->poll();
  BOOST_REQUIRE(fixture.fake.language->gate.wait_for_visitor());
  BOOST_TEST(busy_since_us() >= before_us);
  fixture.fake.language->gate.open();
  fixture.run_until_idle();
  BOOST_TEST(busy_since_us() == -1);
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

BOOST_AUTO_TEST_SUITE_END()
