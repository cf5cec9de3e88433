// Proves that a team does every item exactly once and has finished when run() returns, however
// threads are scheduled.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "device/cpu/cpu_team.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(cpu_team_tests)

BOOST_AUTO_TEST_CASE(every_item_runs_exactly_once_in_many_runs_of_many_sizes) {
  for (int threads : {1, 2, 3, 8}) {  // more threads than cores, too
    CpuTeam team({.threads = threads, .name = "test"});
    BOOST_REQUIRE_EQUAL(team.size(), threads);
    std::mt19937 random(42);
    std::vector<int>
        count;  // plain ints: a race would be seen by ThreadSanitizer, a lost update here
    size_t wrong = 0;
    for (int round = 0; round < 2000; ++round) {
      const auto n_items = static_cast<int64_t>(random() % 40);
      count.assign(static_cast<size_t>(n_items), 0);
      team.run(n_items, [&](int64_t item, int) { ++count[static_cast<size_t>(item)]; });
      wrong += static_cast<size_t>(std::ranges::count_if(count, [](int c) { return c != 1; }));
    }
    BOOST_TEST(wrong == 0U, threads << " threads, seed 42");
  }
}

BOOST_AUTO_TEST_CASE(a_run_sees_what_the_run_before_wrote) {
  CpuTeam team({.threads = 4, .name = "test"});
  std::vector<int64_t> values(64);
  for (int64_t round = 0; round < 500; ++round) {
    team.run(64, [&](int64_t item, int) {
      // Reads a neighbour's value of the last round from what may be another thread.
      values[static_cast<size_t>(item)] += item;
    });
    team.run(64, [&](int64_t item, int) { values[static_cast<size_t>(63 - item)] -= 63 - item; });
  }
  BOOST_TEST(std::ranges::count(values, 0) == 64);
}

BOOST_AUTO_TEST_CASE(worker_ids_are_in_range_and_never_shared_at_one_time) {
  CpuTeam team({.threads = 4, .name = "test"});
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> clashes{0};
  for (int round = 0; round < 300; ++round) {
    team.run(50, [&](int64_t, int worker) {
      if (worker < 0 || worker >= 4 || busy[static_cast<size_t>(worker)].fetch_add(1) != 0) {
        ++clashes;
        return;
      }
      busy[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
  BOOST_TEST(clashes == 0);
}

BOOST_AUTO_TEST_CASE(workers_do_take_part) {
  CpuTeam team({.threads = 3, .name = "test"});
  // The first items wait for each other, so the run can only end if as many workers came.
  std::atomic<int> here{0};
  team.run(3, [&](int64_t, int) {
    ++here;
    while (here < 3) std::this_thread::yield();
  });
  BOOST_TEST(here == 3);
}

BOOST_AUTO_TEST_CASE(sleeping_workers_wake_up_for_the_next_run) {
  CpuTeam team({.threads = 3, .name = "test"});
  for (int round = 0; round < 5; ++round) {
    // Longer than a worker spins, so that it sleeps when the run opens.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    std::atomic<int> here{0};
    team.run(3, [&](int64_t, int) {
      ++here;
      while (here < 3) std::this_thread::yield();
    });
    BOOST_TEST(here == 3);
  }
}

BOOST_AUTO_TEST_CASE(no_items_and_one_item_need_no_worker) {
  CpuTeam team({.threads = 2, .name = "test"});
  int calls = 0;
  team.run(0, [&](int64_t, int) { ++calls; });
  BOOST_TEST(calls == 0);
  std::thread::id runner;
  team.run(1, [&](int64_t, int worker) {
    ++calls;
    BOOST_TEST(worker == 0);
    runner = std::this_thread::get_id();
  });
  BOOST_TEST(calls == 1);
  BOOST_TEST((runner == std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(scratch_is_aligned_separate_and_keeps_its_place_until_it_must_grow) {
  CpuTeam team({.threads = 3, .name = "test"});
  std::vector<std::byte*> areas;
  for (int worker = 0; worker < 3; ++worker) {
    std::byte* area = team.scratch(worker, 1000);
    BOOST_TEST(reinterpret_cast<uintptr_t>(area) % 64 == 0U);
    std::memset(area, worker, 1000);
    areas.push_back(area);
  }
  for (int worker = 0; worker < 3; ++worker) {
    BOOST_TEST(team.scratch(worker, 10) == areas[static_cast<size_t>(worker)]);
    BOOST_TEST(std::to_integer<int>(areas[static_cast<size_t>(worker)][999]) == worker);
  }
  std::byte* large = team.scratch(1, size_t{5} << 20);
  std::memset(large, 1, size_t{5} << 20);
  BOOST_TEST(reinterpret_cast<uintptr_t>(large) % 64 == 0U);
}

BOOST_AUTO_TEST_CASE(reserved_scratch_is_not_allocated_again) {
  CpuTeam team({.threads = 2, .name = "test"});
  team.reserve_scratch(size_t{3} << 20, size_t{1} << 20);
  const int64_t before = team.n_scratch_allocations();
  std::byte* const first = team.scratch(0, 1);
  BOOST_TEST(team.scratch(0, size_t{3} << 20) == first);
  team.scratch(1, size_t{1} << 20);
  team.reserve_scratch(1, 1);  // never shrinks
  BOOST_TEST(team.n_scratch_allocations() == before);
  team.scratch(1, size_t{2} << 20);
  BOOST_TEST(team.n_scratch_allocations() == before + 1);
}

BOOST_AUTO_TEST_CASE(a_team_pinned_to_a_core_still_finishes) {
  const int core = process_cores().front();
  CpuTeam team({.threads = 2, .cores = {core, core}, .name = "test"});
  std::atomic<int64_t> sum{0};
  team.run(100, [&](int64_t item, int) { sum += item; });
  BOOST_TEST(sum == 4950);
  BOOST_TEST(!pin_this_thread(-1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
