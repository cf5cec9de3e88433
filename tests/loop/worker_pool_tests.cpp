// Worker jobs run off the loop thread and are told of on it; the pool is bounded; jobs that wait
// can be cancelled, jobs that run cannot; tenants take turns; a pool can go while its jobs run.
#include <boost/test/unit_test.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "loop/worker_pool.h"
#include "support/loop_wait.h"

namespace hs::test {
namespace {

constexpr unsigned kThreads = 2;

struct PoolFixture {
  PoolFixture() { set_worker_threads(kThreads); }
  ~PoolFixture() { let_go(); }

  // Occupies every thread until let_go().
  void block_all_threads(WorkerPool& pool) {
    for (unsigned i = 0; i < kThreads; ++i)
      BOOST_REQUIRE(
          pool.submit([gate = gate_future] { gate.wait(); }, [](const Status&) {}).has_value());
  }
  void let_go() {
    if (!open) gate.set_value();
    open = true;
  }

  std::promise<void> gate;
  std::shared_future<void> gate_future = gate.get_future().share();
  bool open = false;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(worker_pool_tests, PoolFixture)

BOOST_AUTO_TEST_CASE(work_runs_elsewhere_and_done_runs_here) {
  Loop loop;
  WorkerPool pool(loop, 8);
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id worked, told;
  const auto id = pool.submit([&] { worked = std::this_thread::get_id(); },
                              [&](const Status& outcome) {
                                told = std::this_thread::get_id();
                                BOOST_TEST(outcome.has_value());
                              });
  BOOST_REQUIRE(id.has_value());
  run_until(loop, [&] { return pool.n_jobs() == 0; }, "the job");
  BOOST_TEST((worked != here && worked != std::thread::id()));
  BOOST_TEST((told == here));
  BOOST_TEST(!pool.cancel(*id));  // it has run
}

BOOST_AUTO_TEST_CASE(one_job_over_the_bound_is_refused) {
  Loop loop;
  WorkerPool pool(loop, kThreads + 1);
  block_all_threads(pool);
  int done = 0;
  BOOST_TEST(pool.submit([] {}, [&](const Status&) { ++done; }).has_value());
  const auto refused = pool.submit([] {}, [&](const Status&) { ++done; });
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::kResourceExhausted));
  let_go();
  run_until(loop, [&] { return pool.n_jobs() == 0; }, "the jobs");
  BOOST_TEST(done == 1);
  BOOST_TEST(pool.submit([] {}, [&](const Status&) { ++done; }).has_value());
  run_until(loop, [&] { return done == 2; }, "a job with room again");
}

BOOST_AUTO_TEST_CASE(waiting_job_is_cancelled_and_never_runs) {
  Loop loop;
  WorkerPool pool(loop, 8);
  block_all_threads(pool);
  bool ran = false;
  Status outcome;
  int told = 0;
  const auto id = pool.submit([&] { ran = true; },
                              [&](Status how) {
                                outcome = std::move(how);
                                ++told;
                              });
  BOOST_TEST(pool.cancel(*id));
  BOOST_TEST(told == 0);  // never in the call itself
  run_until(loop, [&] { return told == 1; }, "the cancellation");
  BOOST_REQUIRE(!outcome.has_value());
  BOOST_TEST((outcome.error().kind == ErrorKind::kCancelled));
  let_go();
  run_until(loop, [&] { return pool.n_jobs() == 0; }, "the other jobs");
  BOOST_TEST(!ran);
  BOOST_TEST(told == 1);
}

// Were they not in turns, the first tenant's jobs would hold both threads until the second's ran.
BOOST_AUTO_TEST_CASE(tenants_take_turns) {
  Loop loop;
  WorkerPool pool(loop, 100);
  block_all_threads(pool);
  std::promise<void> other_ran;
  const auto wait_for_other = [done = other_ran.get_future().share()] { done.wait(); };
  for (int i = 0; i < 20; ++i)
    BOOST_REQUIRE(pool.submit(wait_for_other, [](const Status&) {}, {.tenant = 1, .cost = 10}));
  bool told = false;
  BOOST_REQUIRE(pool.submit([&] { other_ran.set_value(); }, [&](const Status&) { told = true; },
                            {.tenant = 2, .cost = 1000}));
  let_go();
  run_until(loop, [&] { return told; }, "the other tenant's job");
  if (!told) other_ran.set_value();
  run_until(loop, [&] { return pool.n_jobs() == 0; }, "all jobs");
}

BOOST_AUTO_TEST_CASE(a_full_pool_takes_the_only_job_of_a_tenant) {
  Loop loop;
  WorkerPool pool(loop, kThreads + 1);
  block_all_threads(pool);
  int done = 0;
  const auto submit = [&](uint64_t tenant) {
    return pool.submit([] {}, [&](const Status&) { ++done; }, {.tenant = tenant, .cost = 1})
        .has_value();
  };
  BOOST_TEST(submit(1));
  BOOST_TEST(!submit(1));
  BOOST_TEST(submit(2));
  BOOST_TEST(!submit(2));
  let_go();
  run_until(loop, [&] { return pool.n_jobs() == 0; }, "the jobs");
  BOOST_TEST(done == 2);
}

BOOST_AUTO_TEST_CASE(running_job_is_not_cancelled) {
  Loop loop;
  WorkerPool pool(loop, 8);
  std::promise<void> begun;
  bool told = false;
  const auto id = pool.submit(
      [&, future = gate_future] {
        begun.set_value();
        future.wait();
      },
      [&](const Status& outcome) { told = outcome.has_value(); });
  begun.get_future().wait();
  BOOST_TEST(!pool.cancel(*id));
  let_go();
  run_until(loop, [&] { return told; }, "the job");
}

BOOST_AUTO_TEST_CASE(job_that_throws_is_an_internal_error) {
  Loop loop;
  WorkerPool pool(loop, 8);
  Status outcome;
  BOOST_REQUIRE(pool.submit([] { throw std::runtime_error("broken picture"); },
                            [&](Status how) { outcome = std::move(how); }));
  run_until(loop, [&] { return pool.n_jobs() == 0; }, "the job");
  BOOST_REQUIRE(!outcome.has_value());
  BOOST_TEST((outcome.error().kind == ErrorKind::kInternal));
  BOOST_TEST(outcome.error().message.find("broken picture") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(pool_may_go_while_jobs_run_and_wait) {
  Loop loop;
  auto pool = std::make_unique<WorkerPool>(loop, 8);
  block_all_threads(*pool);
  bool ran = false, told = false;
  const auto marker = std::make_shared<int>(0);
  BOOST_REQUIRE(
      pool->submit([&, marker] { ran = true; }, [&, marker](const Status&) { told = true; }));
  pool.reset();
  let_go();
  run_until(loop, [&] { return marker.use_count() == 1; }, "the job's memory to be freed");
  BOOST_TEST(!ran);
  BOOST_TEST(!told);
}

BOOST_AUTO_TEST_CASE(many_jobs_are_all_told) {
  Loop loop;
  WorkerPool pool(loop, 1000);
  int told = 0, sum = 0;
  std::vector<std::unique_ptr<int>> results;
  for (int i = 0; i < 1000; ++i) {
    auto result = std::make_unique<int>(0);
    int* slot = result.get();
    results.push_back(std::move(result));
    BOOST_REQUIRE(pool.submit([slot, i] { *slot = i; },
                              [&, slot](const Status&) {
                                ++told;
                                sum += *slot;
                              }));
  }
  run_until(loop, [&] { return told == 1000; }, "all jobs");
  BOOST_TEST(sum == 499'500);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
