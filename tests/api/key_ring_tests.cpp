// Proves who is let in once there are keys, and that each key's limits hold and refill.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/key_ring.h"

namespace hs {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

ApiKey key_of(const std::string& secret, int64_t concurrency = 0, int64_t per_minute = 0) {
  ApiKey key;
  key.id = 1;
  key.name = secret;
  key.hash = hash_key(secret);
  key.concurrency_max = concurrency;
  key.per_minute_max = per_minute;
  return key;
}

BOOST_AUTO_TEST_SUITE(key_ring_tests)

BOOST_AUTO_TEST_CASE(without_keys_they_are_off) {
  KeyRing ring;
  ring.set_keys({});
  BOOST_TEST(!ring.on());
}

BOOST_AUTO_TEST_CASE(a_key_is_found_by_its_bearer_header) {
  KeyRing ring;
  ring.set_keys({key_of("hs-a"), key_of("hs-b")});
  BOOST_TEST(ring.on());
  for (const char* header : {"Bearer hs-b", "bearer hs-b", "BEARER  hs-b"}) {
    const ApiKey* found = ring.find(header);
    BOOST_TEST_REQUIRE(found != nullptr);
    BOOST_TEST(found->name == "hs-b");
  }
  for (const char* header :
       {"", "hs-b", "Basic hs-b", "Bearer", "Bearer ", "Bearer hs-c", "Bearer hs-b ", "Bearerhs-b"})
    BOOST_TEST(ring.find(header) == nullptr);
}

BOOST_AUTO_TEST_CASE(revoking_the_last_key_locks_the_server) {
  KeyRing ring;
  ApiKey key = key_of("hs-a");
  ring.set_keys({key});
  key.revoked_ms = 5;
  ring.set_keys({key});
  BOOST_TEST(ring.on());
  BOOST_TEST(ring.find("Bearer hs-a") == nullptr);
  ring.set_keys({});  // the file was lost
  BOOST_TEST(ring.on());
}

BOOST_AUTO_TEST_CASE(as_many_requests_at_a_time_as_the_key_may_have) {
  KeyRing ring;
  const ApiKey key = key_of("hs-a", 2);
  ring.set_keys({key});
  std::optional<KeyTicket> first = ring.begin(key, 0);
  KeyTicket second = ring.begin(key, 0);
  const auto refused = ring.check(key, 0);
  BOOST_TEST_REQUIRE(refused.has_value());
  BOOST_TEST(refused->error.code == "concurrency_limit_exceeded");
  BOOST_TEST(refused->retry_after_s == 1);
  first.reset();
  BOOST_TEST(!ring.check(key, 0).has_value());
  KeyTicket moved = std::move(second);
  KeyTicket third = ring.begin(key, 0);
  BOOST_TEST(ring.check(key, 0).has_value());
  moved = {};
  BOOST_TEST(!ring.check(key, 0).has_value());
}

BOOST_AUTO_TEST_CASE(a_minutes_requests_may_come_at_once_and_then_evenly) {
  KeyRing ring;
  const ApiKey key = key_of("hs-a", 0, 6);
  ring.set_keys({key});
  int64_t now_us = 50 * kSecondUs;
  for (int i = 0; i < 6; ++i) {
    BOOST_TEST(!ring.check(key, now_us).has_value());
    ring.begin(key, now_us);
  }
  const auto refused = ring.check(key, now_us);
  BOOST_TEST_REQUIRE(refused.has_value());
  BOOST_TEST(refused->error.code == "rate_limit_exceeded");
  BOOST_TEST(refused->retry_after_s == 10);
  now_us += 4 * kSecondUs;
  BOOST_TEST(ring.check(key, now_us)->retry_after_s == 6);
  now_us += 6 * kSecondUs;
  BOOST_TEST(!ring.check(key, now_us).has_value());
  ring.begin(key, now_us);
  BOOST_TEST(ring.check(key, now_us).has_value());
}

BOOST_AUTO_TEST_CASE(an_idle_key_saves_up_no_more_than_a_minute) {
  KeyRing ring;
  const ApiKey key = key_of("hs-a", 0, 3);
  ring.set_keys({key});
  const int64_t later_us = 3600 * kSecondUs;
  for (int i = 0; i < 3; ++i) ring.begin(key, later_us);
  BOOST_TEST(ring.check(key, later_us).has_value());
}

BOOST_AUTO_TEST_CASE(reading_the_file_again_keeps_the_counts_and_takes_new_limits) {
  KeyRing ring;
  ApiKey key = key_of("hs-a", 1, 2);
  ring.set_keys({key});
  const KeyTicket held = ring.begin(key, 0);
  ring.set_keys({key, key_of("hs-b")});
  BOOST_TEST(ring.check(key, 0).has_value());
  key.concurrency_max = 5;
  ring.set_keys({key});
  BOOST_TEST(!ring.check(key, 0).has_value());
  ring.begin(key, 0);
  BOOST_TEST(ring.check(key, 0)->error.code == "rate_limit_exceeded");
}

BOOST_AUTO_TEST_CASE(a_ticket_outlives_its_key) {
  KeyRing ring;
  const ApiKey key = key_of("hs-a", 1);
  ring.set_keys({key});
  KeyTicket held = ring.begin(key, 0);
  ring.set_keys({key_of("hs-b")});
  held = {};
  BOOST_TEST(!ring.check(key, 0).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace hs
