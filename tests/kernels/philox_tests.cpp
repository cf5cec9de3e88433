// Proves the random generator against the known-answer vectors published with its paper (Random123,
// kat_vectors).
#include <boost/test/unit_test.hpp>

#include "kernels/philox.h"

namespace hs::test {
namespace {

void check_block(PhiloxBlock counter, uint64_t key, PhiloxBlock want) {
  const PhiloxBlock got = philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) BOOST_TEST(got.word[i] == want.word[i]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(philox_tests)

BOOST_AUTO_TEST_CASE(ten_rounds_give_the_published_words) {
  check_block({{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  check_block({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffffffffffff,
              {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  check_block({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822,
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
