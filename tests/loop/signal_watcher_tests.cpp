// Signals arrive as events of the loop, with their number, as often as they are raised.
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <memory>
#include <vector>

#include "loop/signal_watcher.h"
#include "support/loop_wait.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(signal_watcher_tests)

BOOST_AUTO_TEST_CASE(each_watched_signal_is_told_by_number) {
  Loop loop;
  std::vector<int> heard;
  SignalWatcher watcher(loop, {SIGTERM, SIGINT, SIGHUP},
                        [&](int number) { heard.push_back(number); });
  for (const int number : {SIGHUP, SIGTERM, SIGINT, SIGTERM}) {
    const size_t before = heard.size();
    BOOST_REQUIRE(std::raise(number) == 0);
    run_until(loop, [&] { return heard.size() == before + 1; }, "the signal");
    BOOST_TEST(heard.back() == number);
  }
}

BOOST_AUTO_TEST_CASE(watching_does_not_keep_the_loop_running) {
  Loop loop;
  SignalWatcher watcher(loop, {SIGTERM}, [](int) {});
  loop.run();
}

BOOST_AUTO_TEST_CASE(callback_may_destroy_its_watcher) {
  Loop loop;
  std::unique_ptr<SignalWatcher> watcher;
  bool heard = false;
  watcher = std::make_unique<SignalWatcher>(loop, std::initializer_list<int>{SIGHUP}, [&](int) {
    watcher.reset();
    heard = true;
  });
  BOOST_REQUIRE(std::raise(SIGHUP) == 0);
  run_until(loop, [&] { return heard; }, "the signal");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
