// Proves what decode steps are padded to: which steps are, what dead rows hold, that the others
// stay as they are.
#include <boost/test/unit_test.hpp>

#include "model/step_padding.h"

namespace hs::test {
namespace {

LanguageStep two_sequences() {
  LanguageStep step;
  step.token_ids = {7, 8};
  step.positions = {4, 9, 5, 10, 6, 11};  // three axes
  step.slots = {36, 25};
  step.cu_query = {0, 1, 2};
  step.context_lens = {5, 10};
  step.block_tables = {2, 9, 1, 3};
  step.block_table_stride = 2;
  step.sample_rows = {0, 1};
  return step;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(step_padding_tests)

BOOST_AUTO_TEST_CASE(only_steps_of_single_sampled_tokens_without_pictures_are_plain) {
  BOOST_TEST(is_plain_decode(two_sequences()));
  auto prompt = two_sequences();
  prompt.context_lens = {10};
  prompt.cu_query = {0, 2};
  BOOST_TEST(!is_plain_decode(prompt));
  auto unsampled = two_sequences();
  unsampled.sample_rows = {1};
  BOOST_TEST(!is_plain_decode(unsampled));
  auto picture = two_sequences();
  picture.image_rows.push_back({0, 1, nullptr});
  BOOST_TEST(!is_plain_decode(picture));
}

BOOST_AUTO_TEST_CASE(dead_rows_store_and_see_nothing) {
  LanguageStep padded;
  padded.image_rows.push_back({0, 1, nullptr});  // of another step
  pad_decode(two_sequences(), 4, 3, padded);
  BOOST_TEST(padded.token_ids == (std::vector<int32_t>{7, 8, 0, 0}));
  BOOST_TEST(padded.positions == (std::vector<int32_t>{4, 9, 0, 0, 5, 10, 0, 0, 6, 11, 0, 0}));
  BOOST_TEST(padded.slots == (std::vector<int64_t>{36, 25, -1, -1}));
  BOOST_TEST(padded.cu_query == (std::vector<int32_t>{0, 1, 2, 3, 4}));
  BOOST_TEST(padded.context_lens == (std::vector<int32_t>{5, 10, 0, 0}));
  BOOST_TEST(padded.block_tables == (std::vector<int32_t>{2, 9, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0}));
  BOOST_TEST(padded.block_table_stride == 3);
  BOOST_TEST(padded.sample_rows == (std::vector<int32_t>{0, 1, 2, 3}));
  BOOST_TEST(padded.image_rows.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
