// A send from another thread is heard on the loop thread, whatever the order of sends, and nothing
// is lost.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "loop/async_wakeup.h"
#include "support/loop_wait.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(async_wakeup_tests)

BOOST_AUTO_TEST_CASE(everything_queued_before_a_send_is_seen) {
  Loop loop;
  std::mutex mutex;
  std::vector<int> queue;
  size_t seen = 0;
  const std::thread::id loop_thread = std::this_thread::get_id();
  AsyncWakeup wakeup(loop, [&] {
    BOOST_TEST((std::this_thread::get_id() == loop_thread));
    const std::lock_guard lock(mutex);
    seen += queue.size();
    queue.clear();
  });
  constexpr size_t kThreads = 4, kEach = 5000;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (size_t i = 0; i < kEach; ++i) {
        {
          const std::lock_guard lock(mutex);
          queue.push_back(1);
        }
        wakeup.send();
      }
    });
  run_until(loop, [&] { return seen == kThreads * kEach; }, "every item");
  for (std::thread& thread : threads) thread.join();
}

BOOST_AUTO_TEST_CASE(only_a_keep_alive_wakeup_keeps_the_loop_running) {
  Loop loop;
  AsyncWakeup idle(loop, [] {}, false);
  loop.run();  // returns
  int called = 0;
  AsyncWakeup wakeup(loop, [&] {
    ++called;
    loop.stop();
  });
  std::thread sender([&] { wakeup.send(); });
  loop.run();
  sender.join();
  BOOST_TEST(called == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
