// The fitted step time gives back the line that the steps came from, follows a change, and never
// answers nonsense for steps of one size or in the wrong order.
#include <boost/test/unit_test.hpp>

#include "engine/step_time.h"

using namespace hs;

BOOST_AUTO_TEST_SUITE(step_time_tests)

BOOST_AUTO_TEST_CASE(a_line_is_found_again) {
  StepTime step_time;
  BOOST_TEST(!step_time.known());
  for (int i = 0; i < 50; ++i) {
    const int n = 1 + i % 7 * 20;
    step_time.saw(n, 1000 + 30 * n);
  }
  BOOST_TEST(step_time.base_us() == 1000, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(step_time.per_token_us() == 30, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(step_time.predict_us(200, 1) == 7000, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(step_time.predict_us(200, 3) == 9000, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(step_time.tokens_within(4000) == 100);
  BOOST_TEST(step_time.tokens_within(10) == 1);
}

BOOST_AUTO_TEST_CASE(steps_of_one_size_are_put_down_to_their_tokens) {
  StepTime step_time;
  for (int i = 0; i < 5; ++i) step_time.saw(10, 500);
  BOOST_TEST(step_time.per_token_us() == 50, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step_time.base_us() == 0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step_time.tokens_within(1000) == 20);
}

BOOST_AUTO_TEST_CASE(larger_steps_that_took_less_time_do_not_turn_the_line_round) {
  StepTime step_time;
  step_time.saw(10, 1000);
  step_time.saw(20, 500);
  BOOST_TEST(step_time.per_token_us() > 0);
  BOOST_TEST(step_time.base_us() >= 0);
  BOOST_TEST(step_time.predict_us(30, 1) > 0);
}

BOOST_AUTO_TEST_CASE(a_device_that_became_slower_is_followed) {
  StepTime step_time;
  for (int i = 0; i < 200; ++i) step_time.saw(1 + i % 5 * 10, 100 + 10 * (1 + i % 5 * 10));
  for (int i = 0; i < 200; ++i) step_time.saw(1 + i % 5 * 10, 100 + 40 * (1 + i % 5 * 10));
  BOOST_TEST(step_time.per_token_us() == 40, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_SUITE_END()
