// Proves that requests share energy and hours evenly while they are under way, that the shares add
// up to what was drawn, and that what was not measured is not made up.
#include <boost/test/unit_test.hpp>

#include "base/clock.h"
#include "store/cost_account.h"

namespace hs {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

struct CostFixture {
  ManualClock clock;
};

BOOST_FIXTURE_TEST_SUITE(cost_account_tests, CostFixture)

BOOST_AUTO_TEST_CASE(one_request_gets_all_that_is_drawn_while_it_runs) {
  CostAccount account(clock, 0);
  account.set_power(100.0);
  clock.advance_us(5 * kSecondUs);  // idle: nobody's
  const auto mark = account.begin();
  clock.advance_us(2 * kSecondUs);
  account.set_power(40.0);
  clock.advance_us(kSecondUs);
  const auto share = account.end(mark);
  BOOST_TEST(share.energy_uj == 240 * kSecondUs);
  BOOST_TEST(share.cost_micros == -1);  // no price
}

BOOST_AUTO_TEST_CASE(shares_of_requests_that_overlap_add_up_to_the_whole) {
  CostAccount account(clock, 0);
  account.set_power(60.0);
  const auto first = account.begin();
  clock.advance_us(kSecondUs);
  const auto second = account.begin();
  clock.advance_us(2 * kSecondUs);
  const auto of_first = account.end(first);
  clock.advance_us(kSecondUs);
  const auto of_second = account.end(second);
  BOOST_TEST(of_first.energy_uj == 120 * kSecondUs);   // 60 + 60 alone and half of 120
  BOOST_TEST(of_second.energy_uj == 120 * kSecondUs);  // half of 120, and 60
}

BOOST_AUTO_TEST_CASE(the_cost_is_that_of_energy_and_hours) {
  CostAccount account(clock, 0.30);
  account.set_power(1000.0);
  account.set_hour_price(2.0);
  const auto mark = account.begin();
  clock.advance_us(3600 * kSecondUs);
  // 1 kWh at 0.30 and one hour at 2.
  BOOST_TEST(account.end(mark).cost_micros == 2'300'000);
}

BOOST_AUTO_TEST_CASE(energy_that_was_not_measured_all_the_time_is_not_known) {
  CostAccount account(clock, 0.30);
  const auto early = account.begin();
  clock.advance_us(kSecondUs);
  account.set_power(100.0);
  const auto late = account.begin();
  clock.advance_us(kSecondUs);
  BOOST_TEST(account.end(early).energy_uj == -1);
  BOOST_TEST(account.end(late).energy_uj == 50 * kSecondUs);
  const auto cut_off = account.begin();
  clock.advance_us(kSecondUs);
  account.set_power({});
  clock.advance_us(kSecondUs);
  const auto share = account.end(cut_off);
  BOOST_TEST(share.energy_uj == -1);
  BOOST_TEST(share.cost_micros == -1);  // a kWh has a price, and nobody knows how many
}

BOOST_AUTO_TEST_CASE(hours_alone_cost_without_a_meter) {
  CostAccount account(clock, 0);
  account.set_hour_price(3.6);
  const auto mark = account.begin();
  clock.advance_us(10 * kSecondUs);
  const auto share = account.end(mark);
  BOOST_TEST(share.energy_uj == -1);
  BOOST_TEST(share.cost_micros == 10'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
