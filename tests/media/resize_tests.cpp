// Resizing equals Pillow's bicubic bit for bit, for every window of the result, and never depends
// on the processor.
#include <boost/test/unit_test.hpp>
#include <random>

#include "media/patterns.h"
#include "media/resize.h"

using namespace hs;
using namespace hs::test;

BOOST_AUTO_TEST_SUITE(resize_tests)

BOOST_AUTO_TEST_CASE(every_size_pair_equals_pillow) {
  const nlohmann::json cases = golden_cases()["resize"];
  BOOST_REQUIRE_GT(cases.size(), 40U);
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.dump()) {
      const Image source = pattern(c["pattern"], c["from"][0], c["from"][1]);
      const Image result = resize_bicubic(source, c["to"][0], c["to"][1]);
      BOOST_TEST(result.width == c["to"][0].get<int32_t>());
      BOOST_TEST(result.height == c["to"][1].get<int32_t>());
      BOOST_TEST(sha256(result.rgb.data(), result.rgb.size()) == c["sha256"].get<std::string>());
    }
  }
}

BOOST_AUTO_TEST_CASE(window_is_the_part_of_the_whole_result) {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto below = [&](int32_t n) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(n));
  };
  for (int round = 0; round < 200; ++round) {
    const Image source = pattern("noise", 1 + below(90), 1 + below(90));
    const int32_t width = 1 + below(120);
    const int32_t height = 1 + below(120);
    ResizeWindow window{below(width), below(height), 0, 0};
    window.width = 1 + below(width - static_cast<int32_t>(window.left));
    window.height = 1 + below(height - static_cast<int32_t>(window.top));
    const Image whole = resize_bicubic(source, width, height);
    const Image part = resize_bicubic_window(source, width, height, window);
    bool same = part.width == window.width && part.height == window.height;
    for (int32_t y = 0; same && y < window.height; ++y) {
      const auto from = static_cast<size_t>((window.top + y) * width + window.left) * 3;
      const auto to = static_cast<size_t>(y * window.width) * 3;
      same = std::equal(part.rgb.begin() + static_cast<std::ptrdiff_t>(to),
                        part.rgb.begin() + static_cast<std::ptrdiff_t>(to) + window.width * 3,
                        whole.rgb.begin() + static_cast<std::ptrdiff_t>(from));
    }
    BOOST_TEST_REQUIRE(same, "seed " << seed << ", round " << round);
  }
}

BOOST_AUTO_TEST_CASE(flat_picture_stays_flat_at_any_size) {
  for (const int level : {0, 1, 127, 254, 255}) {
    const Image flat{31, 17, std::vector<uint8_t>(31 * 17 * 3, static_cast<uint8_t>(level))};
    for (const auto& [width, height] : {std::pair{7, 5}, {31, 200}, {113, 17}, {1, 1}}) {
      const Image result = resize_bicubic(flat, width, height);
      BOOST_TEST(
          std::all_of(result.rgb.begin(), result.rgb.end(), [&](uint8_t v) { return v == level; }));
    }
  }
}

// The whole result would be 336 x 11 million pixels.
BOOST_AUTO_TEST_CASE(window_of_an_enormous_result_costs_only_the_window) {
  const Image line = pattern("noise", 1, 32768);
  const Image part = resize_bicubic_window(line, 336, 336LL * 32768, {0, 5'000'000, 336, 336});
  BOOST_TEST(part.rgb.size() == 336U * 336U * 3U);
}

BOOST_AUTO_TEST_SUITE_END()
