// The closed form of throughput and saving equals values computed by hand, and the stealing rate is
// the optimum of its linear programme.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>

#include "plan/arrivals.h"
#include "plan/tier_math.h"

namespace hs::test {
namespace {

const auto kNear = boost::test_tools::tolerance(1e-12);

}  // namespace

BOOST_AUTO_TEST_SUITE(tier_math_tests)

BOOST_AUTO_TEST_CASE(prices_of_the_paper_give_its_40_6_percent) {
  const double homogeneous = 4 * 16'000;
  const double mixed = 2 * 16'000 + 2 * 3'000;
  BOOST_TEST(homogeneous == 64'000.0);
  BOOST_TEST(mixed == 38'000.0);
  // Of the prices alone, whatever the throughput: as if both had the same.
  BOOST_TEST(saving(mixed, 1, homogeneous, 1) == 0.40625, kNear);
}

BOOST_AUTO_TEST_CASE(a_saving_of_31_4_percent_at_equal_speed_needs_a_vision_share_of_0_386) {
  const double rho = 3'000.0 / 16'000;
  BOOST_TEST(vision_share_for(0.314, rho, 1) == 0.314 / 0.8125, kNear);
  BOOST_TEST(vision_share_for(0.314, rho, 1) == 0.386, boost::test_tools::tolerance(0.002));
  BOOST_TEST(vision_share_for(0.314, rho, 165.0 / 312) == 0.486,
             boost::test_tools::tolerance(0.002));
  BOOST_TEST(saving_at_no_idle(0.386, rho, 1) == 0.314, boost::test_tools::tolerance(0.002));
}

BOOST_AUTO_TEST_CASE(two_tiers_pay_only_when_speed_is_worth_more_than_price) {
  BOOST_TEST(saving_at_no_idle(0.3, 0.2, 0.5) == 0.3 * 0.6, kNear);
  BOOST_TEST(saving_at_no_idle(0.3, 0.5, 0.5) == 0.0);
  BOOST_TEST(saving_at_no_idle(0.3, 0.6, 0.5) < 0);
}

BOOST_AUTO_TEST_CASE(throughputs_are_those_computed_by_hand) {
  // Milliseconds: 40 of vision and 110 of language on the one, 80 and 220 on the other.
  const TierTimes times{
      .v_consumer = 80, .v_datacenter = 40, .l_consumer = 220, .l_datacenter = 110};
  BOOST_TEST(times.vision_share() == 40.0 / 150, kNear);
  BOOST_TEST(times.vision_speed() == 0.5, kNear);
  BOOST_TEST(homogeneous_rate(4, 40, 110) == 4.0 / 150, kNear);
  BOOST_TEST(two_tier_rate(2, 2, times) == 2.0 / 110, kNear);  // 2/80 pictures are encoded
  BOOST_TEST(two_tier_rate(1, 2, times) == 1.0 / 80, kNear);
  // (2/110 + 2/220) / (1 + 80/220): 0.02 requests a millisecond
  BOOST_TEST(stealing_rate(2, 2, times) == 0.02, kNear);
  BOOST_TEST(stealing_rate(1, 2, times) == 1.0 / 80,
             kNear);  // short of vision: nothing to steal with
  BOOST_TEST(stage_rate(2, 2, 80, 120, 50) == 0.01, kNear);
  BOOST_TEST(stage_rate(2, 2, 80, 20, 100) == 0.02, kNear);
  BOOST_TEST(no_idle_ratio(times) == 80.0 / 110, kNear);
}

BOOST_AUTO_TEST_CASE(at_the_no_idle_ratio_the_saving_is_that_of_the_formula) {
  const TierTimes times{
      .v_consumer = 76, .v_datacenter = 40, .l_consumer = 217, .l_datacenter = 112};
  const double n_datacenter = 10;
  const double n_consumer = no_idle_ratio(times) * n_datacenter;
  const double rho = 0.1875;
  const double rate = two_tier_rate(n_consumer, n_datacenter, times);
  const double homogeneous = homogeneous_rate(1, times.v_datacenter, times.l_datacenter);
  BOOST_TEST(saving(n_consumer * rho + n_datacenter, rate, 1, homogeneous) ==
                 saving_at_no_idle(times.vision_share(), rho, times.vision_speed()),
             kNear);
}

BOOST_AUTO_TEST_CASE(a_model_that_does_not_fit_the_consumer_card_cannot_be_stolen) {
  const TierTimes times{.v_consumer = 80,
                        .v_datacenter = 40,
                        .l_consumer = std::numeric_limits<double>::infinity(),
                        .l_datacenter = 110};
  BOOST_TEST(stealing_rate(2, 2, times) == two_tier_rate(2, 2, times), kNear);
}

BOOST_AUTO_TEST_CASE(the_stealing_rate_is_the_best_that_any_share_of_theft_gives) {
  const uint64_t seed = 7;
  BOOST_TEST_MESSAGE("seed " << seed);
  SeededRandom random(seed);
  for (int round = 0; round < 300; ++round) {
    const TierTimes times{.v_consumer = 1 + 99 * random.uniform(),
                          .v_datacenter = 1,
                          .l_consumer = 1 + 299 * random.uniform(),
                          .l_datacenter = 1 + 199 * random.uniform()};
    const double n_consumer = 1 + static_cast<double>(random.below(8));
    const double n_datacenter = 1 + static_cast<double>(random.below(8));
    // Of all requests a share is stolen: the slower pool sets the rate.
    double best = 0;
    for (int i = 0; i <= 2000; ++i) {
      const double stolen = i / 2000.0;
      const double consumer = n_consumer / (times.v_consumer + stolen * times.l_consumer);
      const double datacenter =
          stolen < 1 ? n_datacenter / ((1 - stolen) * times.l_datacenter) : 1e9;
      best = std::max(best, std::min(consumer, datacenter));
    }
    const double rate = stealing_rate(n_consumer, n_datacenter, times);
    BOOST_TEST(rate >= best * (1 - 1e-9));
    BOOST_TEST(rate <= best * 1.01);  // as fine as the shares above are
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
