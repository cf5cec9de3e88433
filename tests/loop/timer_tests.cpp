// Timers fire once or repeatedly, can be restarted, and may be destroyed at any time, also by
// themselves.
#include <boost/test/unit_test.hpp>
#include <memory>

#include "loop/timer.h"
#include "support/loop_wait.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(timer_tests)

BOOST_AUTO_TEST_CASE(fires_once_and_not_early) {
  Loop loop;
  int called = 0;
  Timer timer(loop, [&] { ++called; });
  const int64_t begin_us = loop.now_us();
  timer.start(30);
  BOOST_TEST(timer.active());
  loop.run();
  BOOST_TEST(called == 1);
  BOOST_TEST(!timer.active());
  BOOST_TEST(loop.now_us() - begin_us >= 29'000);  // libuv counts whole milliseconds
}

BOOST_AUTO_TEST_CASE(repeats_until_stopped) {
  Loop loop;
  int called = 0;
  std::unique_ptr<Timer> timer;
  timer = std::make_unique<Timer>(loop, [&] {
    if (++called == 5) timer->stop();
  });
  timer->start(1, 1);
  loop.run();
  BOOST_TEST(called == 5);
}

BOOST_AUTO_TEST_CASE(start_replaces_the_earlier_start) {
  Loop loop;
  int called = 0;
  Timer timer(loop, [&] { ++called; });
  timer.start(60'000);
  timer.start(1);
  loop.run();
  BOOST_TEST(called == 1);
}

BOOST_AUTO_TEST_CASE(destroyed_timer_does_not_fire) {
  Loop loop;
  bool fired = false;
  {
    Timer timer(loop, [&] { fired = true; });
    timer.start(0);
  }
  loop.run();
  BOOST_TEST(!fired);
}

BOOST_AUTO_TEST_CASE(callback_may_destroy_its_timer) {
  Loop loop;
  std::unique_ptr<Timer> timer;
  int called = 0;
  timer = std::make_unique<Timer>(loop, [&] {
    timer.reset();
    ++called;  // the callable lives on until it returns
  });
  timer->start(1, 1);
  loop.run();
  BOOST_TEST(called == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
