// Connections are bounded by the settings, the queue and the limit of open files, whichever is
// least.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>

#include "app/descriptors.h"

using namespace hs;

BOOST_AUTO_TEST_SUITE(descriptors_tests)

BOOST_AUTO_TEST_CASE(the_limit_is_raised_as_far_as_it_goes) {
  rlimit before{};
  BOOST_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 200;
  BOOST_REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  const size_t raised = raise_descriptor_limit();
  rlimit after{};
  BOOST_REQUIRE(getrlimit(RLIMIT_NOFILE, &after) == 0);
  BOOST_REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  BOOST_TEST(raised == after.rlim_cur);
  BOOST_TEST((raised == before.rlim_max || raised == size_t{1} << 20));
}

BOOST_AUTO_TEST_CASE(connections_are_the_settings_or_the_queues_within_the_limit) {
  Config config;
  config.max_queue = 100;
  config.max_num_seqs = 10;
  BOOST_TEST(connections_max(config, 1 << 20) == 1134U);
  BOOST_TEST(connections_max(config, 1024) == 768U);
  BOOST_TEST(connections_max(config, 100) == 50U);
  config.max_connections = 20'000;
  BOOST_TEST(connections_max(config, 1 << 20) == 20'000U);
  config.max_connections = 5;
  BOOST_TEST(connections_max(config, 1024) == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
