// Proves the cache layout: every element has its own place, and a head's page is one contiguous
// run.
#include <boost/test/unit_test.hpp>
#include <set>

#include "kernels/kv_cache.h"

namespace hs::test {

BOOST_AUTO_TEST_SUITE(kv_cache_tests)

BOOST_AUTO_TEST_CASE(every_key_and_value_vector_has_its_own_place_inside_its_block) {
  const KvLayout layout{DType::kF32, 5, 3, 4};
  std::set<int64_t> starts;
  for (int64_t block = 0; block < 3; ++block) {
    for (int32_t head = 0; head < 3; ++head) {
      for (int32_t slot = 0; slot < 5; ++slot) {
        for (int64_t at :
             {layout.key_index(block, head, slot), layout.value_index(block, head, slot)}) {
          BOOST_TEST(at % 4 == 0);
          BOOST_TEST(at >= block * layout.block_stride());
          BOOST_TEST(at + 4 <= (block + 1) * layout.block_stride());
          starts.insert(at);
        }
      }
    }
  }
  BOOST_TEST(starts.size() == 3U * 2 * 3 * 5);
}

BOOST_AUTO_TEST_CASE(a_heads_page_is_contiguous) {
  const KvLayout layout{DType::kBF16, 16, 2, 64};
  for (int32_t slot = 0; slot < 15; ++slot) {
    BOOST_TEST(layout.key_index(1, 1, slot + 1) - layout.key_index(1, 1, slot) == 64);
    BOOST_TEST(layout.value_index(1, 1, slot + 1) - layout.value_index(1, 1, slot) == 64);
  }
}

BOOST_AUTO_TEST_CASE(block_bytes_count_keys_and_values_in_the_stored_format) {
  BOOST_TEST((KvLayout{DType::kF32, 16, 8, 128}.block_bytes()) == 2U * 16 * 8 * 128 * 4);
  BOOST_TEST((KvLayout{DType::kBF16, 16, 8, 128}.block_bytes()) == 2U * 16 * 8 * 128 * 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
