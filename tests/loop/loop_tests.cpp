// The loop ends when nothing is left to happen, stops on demand, and measures how late it runs.
#include <boost/test/unit_test.hpp>

#include "loop/loop.h"
#include "loop/timer.h"
#include "support/loop_wait.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(loop_tests)

BOOST_AUTO_TEST_CASE(run_returns_when_nothing_is_left) {
  Loop loop;
  int called = 0;
  Timer timer(loop, [&] { ++called; });
  timer.start(1);
  loop.run();  // its own lag measurement does not keep it running
  BOOST_TEST(called == 1);
}

BOOST_AUTO_TEST_CASE(stop_ends_run_and_run_may_go_on) {
  Loop loop;
  int called = 0;
  Timer timer(loop, [&] {
    ++called;
    loop.stop();
  });
  timer.start(1, 1);
  loop.run();
  BOOST_TEST(called == 1);
  loop.run();
  BOOST_TEST(called == 2);
}

BOOST_AUTO_TEST_CASE(lag_histogram_shows_a_callback_that_blocks) {
  Loop loop;
  bool blocked = false;
  // Blocks the thread for 60 ms, as no callback of the product may.
  Timer timer(loop, [&] {
    for (const int64_t end_us = loop.now_us() + 60'000; loop.now_us() < end_us;) continue;
    blocked = true;
  });
  timer.start(1);
  run_until(loop, [&] { return blocked && loop.lag().total >= 3; }, "three samples");
  const LagHistogram& lag = loop.lag();
  // A sample is due every 20 ms, so the one that had to wait waited for at least 60 - 20 - 1 ms.
  BOOST_TEST(lag.total > lag.counts[5]);  // some sample was over 25 ms late
  BOOST_TEST(lag.sum_seconds > 0.035);
}

BOOST_AUTO_TEST_CASE(lag_counts_are_cumulative) {
  LagHistogram lag;
  lag.add(0.0001);
  lag.add(0.02);
  lag.add(10);
  BOOST_TEST(lag.counts.front() == 1U);
  BOOST_TEST(lag.counts[5] == 2U);
  BOOST_TEST(lag.counts.back() == 2U);
  BOOST_TEST(lag.total == 3U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
