// The counts behind penalties equal a recount of the whole sequence after every token, and leave
// image placeholders out wherever they stand.
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "engine/token_counts.h"

using namespace hs;

namespace {

PromptImage image_at(int32_t first, int32_t n_rows) {
  PromptImage image;
  image.first = first;
  image.key.n_rows = n_rows;
  return image;
}

std::map<int32_t, int32_t> recount(const Sequence& sequence) {
  std::map<int32_t, int32_t> counts;
  const RequestState& request = *sequence.request;
  for (int32_t i = 0; i < request.n_prompt(); ++i) {
    bool placeholder = false;
    for (const PromptImage& image : request.images)
      placeholder |= i >= image.first && i < image.end();
    if (!placeholder) counts.emplace(request.prompt[static_cast<size_t>(i)], 0);
  }
  for (const int32_t id : sequence.outputs) ++counts[id];
  return counts;
}

std::map<int32_t, int32_t> counts_of(const SequenceTokenCounts& counts) {
  std::map<int32_t, int32_t> result;
  for (const TokenCount& token : counts.counts())
    BOOST_TEST(result.emplace(token.id, token.n_output).second);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(token_counts_tests)

BOOST_AUTO_TEST_CASE(counts_equal_a_recount) {
  constexpr uint32_t kSeed = 5;
  BOOST_TEST_MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  const std::vector<std::vector<PromptImage>> layouts = {
      {},
      {image_at(0, 3)},
      {image_at(2, 4), image_at(6, 1)},
      {image_at(0, 1), image_at(17, 3)},
      {image_at(0, 20)},
  };
  for (const auto& images : layouts) {
    RequestState request;
    request.images = images;
    for (int i = 0; i < 20; ++i) request.prompt.push_back(static_cast<int32_t>(random() % 8));
    Sequence sequence;
    sequence.request = &request;
    SequenceTokenCounts counts;
    counts.update(sequence);
    BOOST_TEST((counts_of(counts) == recount(sequence)));
    for (int step = 0; step < 30; ++step) {
      for (size_t n = random() % 3; n > 0; --n)
        sequence.outputs.push_back(static_cast<int32_t>(random() % 12));
      counts.update(sequence);
      BOOST_TEST((counts_of(counts) == recount(sequence)));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_image_token_that_is_sampled_counts) {
  RequestState request;
  request.prompt = {5, 9, 9, 6};
  request.images = {image_at(1, 2)};
  Sequence sequence;
  sequence.request = &request;
  SequenceTokenCounts counts;
  counts.update(sequence);
  BOOST_TEST((counts_of(counts) == std::map<int32_t, int32_t>{{5, 0}, {6, 0}}));
  sequence.outputs = {9, 5};
  counts.update(sequence);
  BOOST_TEST((counts_of(counts) == std::map<int32_t, int32_t>{{5, 1}, {6, 0}, {9, 1}}));
}

BOOST_AUTO_TEST_SUITE_END()
