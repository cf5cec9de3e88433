// Tenants that queue together are served in turns by what they take, one tenant alone in order of
// arrival, and nobody waits for ever.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fair_turns.h"

using hs::FairTurns;

namespace {

// Names requests by the letter of their tenant and serves the lowest turn first.
struct Queue {
  void arrive(char tenant, uint64_t cost) {
    waiting.emplace(turns.arrive(static_cast<uint64_t>(tenant), cost), tenant);
  }
  // The next one begins; "-" when nobody waits.
  char begin() {
    if (waiting.empty()) return '-';
    const auto [turn, tenant] = *waiting.begin();
    waiting.erase(waiting.begin());
    turns.begin(turn);
    running.push_back(turn);
    return tenant;
  }
  void end_oldest(uint64_t spent) {
    turns.end(running.front(), spent);
    running.erase(running.begin());
  }
  std::string serve(size_t n, uint64_t spent) {
    std::string order;
    for (size_t i = 0; i < n; ++i) {
      order += begin();
      end_oldest(spent);
    }
    return order;
  }

  FairTurns turns;
  std::map<uint64_t, char> waiting;
  std::vector<uint64_t> running;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(fair_turns_tests)

BOOST_AUTO_TEST_CASE(one_tenant_alone_is_served_in_order_of_arrival) {
  FairTurns turns;
  uint64_t last = turns.arrive(7, 1);
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t turn = turns.arrive(7, 1 + i % 13);
    BOOST_TEST(turn > last);
    last = turn;
    if (i % 3 == 0) turns.begin(turn);
    if (i % 6 == 0) turns.end(turn, i % 5 * 100);
  }
}

BOOST_AUTO_TEST_CASE(a_request_waits_for_one_of_another_tenant_not_for_all) {
  Queue queue;
  for (int i = 0; i < 6; ++i) queue.arrive('a', 10);
  BOOST_TEST(queue.begin() == 'a');
  BOOST_TEST(queue.begin() == 'a');
  queue.arrive('b', 10);
  BOOST_TEST(queue.begin() == 'b');
  BOOST_TEST(queue.begin() == 'a');
}

BOOST_AUTO_TEST_CASE(tenants_share_by_cost_not_by_number) {
  Queue queue;
  for (int i = 0; i < 4; ++i) queue.arrive('a', 30);
  for (int i = 0; i < 9; ++i) queue.arrive('b', 10);
  BOOST_TEST(queue.serve(12, 0) == "abbbabbbabbb");
}

BOOST_AUTO_TEST_CASE(who_was_away_has_saved_nothing_up) {
  Queue queue;
  for (int i = 0; i < 8; ++i) queue.arrive('a', 10);
  BOOST_TEST(queue.serve(4, 10) == "aaaa");
  for (int i = 0; i < 4; ++i) queue.arrive('b', 10);
  BOOST_TEST(queue.serve(6, 10) == "bababa");
}

BOOST_AUTO_TEST_CASE(what_a_request_took_beyond_its_cost_is_its_tenants) {
  Queue queue;
  queue.arrive('a', 10);
  queue.arrive('c', 1000);
  BOOST_TEST(queue.begin() == 'a');
  BOOST_TEST(queue.begin() == 'c');
  queue.end_oldest(50);  // a
  queue.arrive('a', 10);
  for (int i = 0; i < 6; ++i) queue.arrive('b', 10);
  BOOST_TEST(queue.serve(1, 10) == "b");
  std::string order;
  while (!queue.waiting.empty()) order += queue.begin();
  BOOST_TEST(order.find('a') == 4U);
}

BOOST_AUTO_TEST_CASE(waiting_requests_are_counted_by_tenant_and_nothing_stays) {
  FairTurns turns;
  const uint64_t first = turns.arrive(1, 5);
  const uint64_t second = turns.arrive(1, 5);
  const uint64_t other = turns.arrive(2, 5);
  BOOST_TEST(turns.n_waiting(1) == 2);
  turns.begin(first);
  turns.begin(first);
  BOOST_TEST(turns.n_waiting(1) == 1);
  turns.end(second, 0);  // cancelled before it began
  BOOST_TEST(turns.n_waiting(1) == 0);
  BOOST_TEST(turns.n_waiting(3) == 0);
  BOOST_TEST(turns.n_here(1) == 1);
  BOOST_TEST(turns.n_here(3) == 0);
  BOOST_TEST(turns.n_tenants_waiting() == 1);
  turns.end(first, 5);
  turns.end(other, 0);
  BOOST_TEST(turns.empty());
  BOOST_TEST(turns.arrive(1, 5) == 0U);
}

// Every tenant always has requests waiting, of random cost. Whatever is drawn, services differ by
// no more than a few requests, so nobody starves.
BOOST_AUTO_TEST_CASE(backlogged_tenants_get_equal_service_whatever_their_requests_are) {
  constexpr uint64_t kCostMax = 50;
  const uint32_t first_seed = std::random_device{}();
  for (uint32_t seed = first_seed; seed < first_seed + 50; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937 random(seed);
      const size_t n_tenants = 2 + random() % 5;
      std::vector<uint64_t> served(n_tenants, 0);
      std::map<uint64_t, std::pair<size_t, uint64_t>> waiting;  // by turn: tenant, cost
      FairTurns turns;
      const auto arrive = [&](size_t tenant) {
        const uint64_t cost = 1 + random() % kCostMax;
        const uint64_t turn = turns.arrive(tenant, cost);
        BOOST_REQUIRE(waiting.emplace(turn, std::pair(tenant, cost)).second);
      };
      for (size_t tenant = 0; tenant < n_tenants; ++tenant) {
        for (size_t i = 0; i < 2 + random() % 20; ++i) arrive(tenant);
      }
      for (int i = 0; i < 2000; ++i) {
        const auto [turn, request] = *waiting.begin();
        waiting.erase(waiting.begin());
        turns.begin(turn);
        turns.end(turn, request.second);
        served[request.first] += request.second;
        arrive(request.first);
        const auto [least, most] = std::ranges::minmax(served);
        BOOST_REQUIRE_LE(most - least, 3 * kCostMax);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
