// A lane executes its orders one after another, in order, on its own thread, and hands each back
// once.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "engine/engine_fixture.h"
#include "engine/fakes.h"
#include "engine/lane.h"

using namespace hs;
using namespace hs::test;

namespace {

class TestOrder final : public WorkOrder {
 public:
  TestOrder(int its_number, std::function<Status()> its_work)
      : number(its_number), work(std::move(its_work)) {}
  Kind kind() const override { return Kind::kStep; }
  Status execute() override {
    thread = std::this_thread::get_id();
    return work();
  }
  int number;
  std::function<Status()> work;
  std::thread::id thread;
};

struct LaneFixture {
  SystemClock clock;
  WakeUp wake;
  CompletionQueue completions{[this] { wake.notify(); }};
  std::vector<std::unique_ptr<WorkOrder>> done;

  void collect(size_t n) {
    std::vector<std::unique_ptr<WorkOrder>> some;
    for (;;) {
      completions.take(some);
      for (auto& order : some) done.push_back(std::move(order));
      if (done.size() >= n) return;
      BOOST_REQUIRE(wake.wait());
    }
  }
  TestOrder& order(size_t i) { return static_cast<TestOrder&>(*done[i]); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(lane_tests, LaneFixture)

BOOST_AUTO_TEST_CASE(orders_run_in_order_and_never_together) {
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  Lane lane("test", completions, clock);
  for (int i = 0; i < 100; ++i) {
    lane.post(std::make_unique<TestOrder>(i, [&]() -> Status {
      if (inside++ > 0) ++overlaps;
      --inside;
      return {};
    }));
  }
  collect(100);
  for (size_t i = 0; i < 100; ++i) {
    BOOST_TEST(order(i).number == static_cast<int>(i));
    BOOST_TEST(order(i).status.has_value());
    BOOST_TEST((order(i).thread != std::this_thread::get_id()));
    BOOST_TEST((order(i).thread == order(0).thread));
    BOOST_TEST(order(i).finished_us >= order(i).started_us);
  }
  BOOST_TEST(overlaps == 0);
}

BOOST_AUTO_TEST_CASE(an_error_or_exception_ends_one_order_only) {
  Lane lane("test", completions, clock);
  lane.post(std::make_unique<TestOrder>(
      0, []() -> Status { return fail(ErrorKind::kUnavailable, "lost"); }));
  lane.post(std::make_unique<TestOrder>(1, []() -> Status { throw std::runtime_error("thrown"); }));
  lane.post(std::make_unique<TestOrder>(2, []() -> Status { return {}; }));
  collect(3);
  BOOST_TEST(order(0).status.error().message == "lost");
  BOOST_TEST(order(1).status.error().message == "thrown");
  BOOST_TEST(order(2).status.has_value());
}

BOOST_AUTO_TEST_CASE(a_lane_that_ends_finishes_one_order_and_drops_the_rest) {
  Gate gate;
  gate.close();
  std::atomic<int> n_run = 0;
  {
    Lane lane("test", completions, clock);
    for (int i = 0; i < 3; ++i) {
      lane.post(std::make_unique<TestOrder>(i, [&]() -> Status {
        ++n_run;
        gate.pass();
        return {};
      }));
    }
    BOOST_REQUIRE(gate.wait_for_visitor());
    // The destructor asks the lane to stop before the order in execution goes on, or just after.
    gate.open();
  }
  std::vector<std::unique_ptr<WorkOrder>> some;
  completions.take(some);
  BOOST_TEST(some.size() == static_cast<size_t>(n_run));
  BOOST_TEST(n_run >= 1);
}

BOOST_AUTO_TEST_CASE(two_lanes_share_a_completion_queue) {
  Gate gate;
  gate.close();
  Lane slow("slow", completions, clock);
  Lane fast("fast", completions, clock);
  slow.post(std::make_unique<TestOrder>(0, [&]() -> Status {
    gate.pass();
    return {};
  }));
  fast.post(std::make_unique<TestOrder>(1, []() -> Status { return {}; }));
  collect(1);
  BOOST_TEST(order(0).number == 1);
  gate.open();
  collect(2);
  BOOST_TEST(order(1).number == 0);
}

BOOST_AUTO_TEST_SUITE_END()
