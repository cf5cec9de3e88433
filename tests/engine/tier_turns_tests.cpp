// Requests of several tenants take turns, within a priority and however full the queue is.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "engine/tier_script.h"

using namespace hs;
using namespace hs::test;

namespace {

// One unit that runs one request at a time.
TierConfig one_at_a_time(int32_t max_queue = 256) {
  TierConfig config;
  config.units = {{.device = 0, .scheduling = unit_config(), .towers = {}}};
  config.units[0].scheduling.max_num_seqs = 1;
  config.max_queue = max_queue;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tier_turns_tests)

BOOST_AUTO_TEST_CASE(a_tenants_many_requests_let_anothers_single_one_pass) {
  Script script(one_at_a_time());
  for (RequestId id = 1; id <= 5; ++id) BOOST_REQUIRE(script.arrive(id, 4, {}, 1, 1, 1));
  BOOST_TEST(script.run(0) == "1:0+4!");
  BOOST_REQUIRE(script.arrive(6, 4, {}, 1, 1, 2));
  BOOST_TEST(script.tiers.n_tenants_waiting() == 2);
  script.tiers.finish(1, 0);
  BOOST_TEST(script.run(0) == "6:0+4!");
  script.tiers.finish(6, 0);
  BOOST_TEST(script.run(0) == "2:0+4!");
  BOOST_TEST(script.tiers.n_tenants_waiting() == 1);
}

BOOST_AUTO_TEST_CASE(tenants_share_by_tokens) {
  Script script(one_at_a_time());
  // Of tenant 1 each takes 16 + 2, of tenant 2 each 4 + 2.
  for (RequestId id = 10; id < 14; ++id) BOOST_REQUIRE(script.arrive(id, 16, {}, 1, 1, 1));
  for (RequestId id = 20; id < 29; ++id) BOOST_REQUIRE(script.arrive(id, 4, {}, 1, 1, 2));
  std::string order;
  for (int i = 0; i < 12; ++i) {
    BOOST_REQUIRE(script.run(0) != "-");
    const RequestId id = script.steps[0].items.front().sequence->request->id;
    order += id < 20 ? 'a' : 'b';
    script.tiers.finish(id, 0);
  }
  BOOST_TEST(order == "abbbabbbabbb");
}

BOOST_AUTO_TEST_CASE(a_priority_goes_before_turns_and_classes_do_not_mix) {
  Script script(one_at_a_time());
  for (RequestId id = 1; id <= 3; ++id) BOOST_REQUIRE(script.arrive(id, 4, {}, 1, 1, 1));
  BOOST_TEST(script.run(0) == "1:0+4!");
  BOOST_REQUIRE(script.tiers.arrived({.id = 4,
                                      .prompt = std::vector<int32_t>(4, 4),
                                      .images = {},
                                      .max_tokens = 1,
                                      .priority = 5,
                                      .tenant = 2}));
  BOOST_REQUIRE(script.tiers.arrived({.id = 5,
                                      .prompt = std::vector<int32_t>(4, 5),
                                      .images = {},
                                      .max_tokens = 1,
                                      .priority = -5,
                                      .tenant = 1}));
  script.tiers.finish(1, 0);
  for (const RequestId id : {5U, 2U, 3U, 4U}) {
    BOOST_TEST(script.run(0) == fmt::format("{}:0+4!", id));
    script.tiers.finish(id, 0);
  }
}

BOOST_AUTO_TEST_CASE(a_full_queue_has_room_for_a_tenant_that_has_none_in_it) {
  Script script(one_at_a_time(2));
  BOOST_TEST(script.arrive(1, 4, {}, 1, 1, 1).has_value());
  BOOST_TEST(script.arrive(2, 4, {}, 1, 1, 1).has_value());
  BOOST_TEST(script.arrive(3, 4, {}, 1, 1, 1).error().code == "queue_full");
  BOOST_TEST(script.arrive(4, 4, {}, 1, 1, 2).has_value());
  BOOST_TEST(script.arrive(5, 4, {}, 1, 1, 2).error().code == "queue_full");
  script.tiers.cancel(4);
  BOOST_TEST(script.arrive(6, 4, {}, 1, 1, 2).has_value());
  for (const RequestId id : {1U, 2U, 6U}) script.tiers.cancel(id);
  BOOST_TEST(script.tiers.n_tenants_waiting() == 0);
  BOOST_TEST(script.tiers.n_requests() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
