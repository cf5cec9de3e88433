// Files that claim more than they hold, and small files that unfold into large pictures, are judged
// by their headers: memory stays within 12 bytes a pixel, and nothing is allocated for a lie.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "media/image.h"
#include "media/patterns.h"

using namespace hs;
using namespace hs::test;

namespace {

using Bytes = std::vector<std::byte>;
constexpr int64_t kMiB = 1 << 20;

Bytes golden_file(const std::string& name) {
  return read_file(kGolden + "files/" + name);
}

void put(Bytes& file, size_t at, std::initializer_list<int> values) {
  for (const int value : values) file.at(at++) = static_cast<std::byte>(value);
}

size_t find(const Bytes& file, std::string_view text) {
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).find(text);
}

uint32_t crc32_of(std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const std::byte b : bytes) {
    crc ^= std::to_integer<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// Both sides of a golden file's header set to `side` (below 65536), whatever the format.
Bytes with_side(const std::string& name, int side) {
  Bytes file = golden_file(name);
  const int high = side >> 8;
  const int low = side & 255;
  if (name.ends_with(".png")) {
    put(file, 16, {0, 0, high, low, 0, 0, high, low});
    const uint32_t crc = crc32_of(std::span(file).subspan(12, 17));
    for (size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  } else if (name.ends_with(".jpg")) {
    const size_t progressive = find(file, "\xFF\xC2");
    put(file, (progressive < file.size() ? progressive : find(file, "\xFF\xC0")) + 5,
        {high, low, high, low});
  } else if (name.ends_with(".gif")) {
    put(file, 6, {low, high, low, high});
  } else if (name.ends_with(".bmp")) {
    put(file, 18, {low, high, 0, 0, low, high, 0, 0});
  } else {  // VP8X: less one each, three bytes
    put(file, 24, {(side - 1) & 255, (side - 1) >> 8, 0, (side - 1) & 255, (side - 1) >> 8, 0});
  }
  return file;
}

int64_t status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with(field)) return std::stoll(line.substr(field.size() + 1));
  return -1;
}

struct Cost {
  std::string code;    // "" for a picture
  int64_t bytes = 0;   // of memory, at the peak
  int64_t pixels = 0;  // of the picture
};

Cost cost_of(const Bytes& file) {
  std::ofstream("/proc/self/clear_refs") << "5\n";  // forgets the peak so far
  const int64_t before_kib = status_kib("VmRSS:");
  const auto image = decode_image(file, {});
  Cost cost{.code = image ? "" : image.error().code};
  cost.bytes = (status_kib("VmHWM:") - before_kib) * 1024;
  if (image) cost.pixels = int64_t{image->width} * image->height;
  return cost;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile_pictures_tests)

BOOST_AUTO_TEST_CASE(size_over_the_limit_is_refused_by_the_header) {
  for (const char* name : {"rgb_8.png", "grey_1_interlaced.png", "subsampling_444.jpg",
                           "progressive.jpg", "cmyk_adobe.jpg", "exif_6.webp", "animation.webp",
                           "plain_87a.gif", "animation.gif", "bgr_24.bmp", "rle_8.bmp"}) {
    const Cost cost = cost_of(with_side(name, 30'000));
    BOOST_TEST(cost.code == "image_too_large", name);
    BOOST_TEST(cost.bytes < 4 * kMiB, name << " took " << cost.bytes);
  }
}

// 49 million pixels are within the limit, but these files cannot hold them.
BOOST_AUTO_TEST_CASE(nothing_is_allocated_for_pixels_that_cannot_be_there) {
  for (const char* name :
       {"rgb_8.png", "grey_1.png", "rgba_16_interlaced.png", "subsampling_444.jpg",
        "progressive.jpg", "cmyk_adobe.jpg", "bgr_24.bmp", "palette_1.bmp", "alpha.bmp"}) {
    const Cost cost = cost_of(with_side(name, 7'000));
    BOOST_TEST(cost.code == "invalid_image", name);
    BOOST_TEST(cost.bytes < 4 * kMiB, name << " took " << cost.bytes);
  }
}

// Runs may leave out any number of pixels, so these are pictures: white, or of one colour.
BOOST_AUTO_TEST_CASE(small_files_of_large_pictures_take_bytes_by_the_pixel) {
  for (const char* name : {"offset.gif", "rle_8_jumps.bmp"}) {
    const Cost cost = cost_of(with_side(name, 4'000));
    BOOST_TEST(cost.code == "", name);
    BOOST_TEST(cost.pixels == 16'000'000, name);
    BOOST_TEST(cost.bytes <= 12 * cost.pixels + 4 * kMiB, name << " took " << cost.bytes);
  }
}

BOOST_AUTO_TEST_CASE(a_million_blocks_before_a_frame_are_passed_over) {
  const Bytes file = golden_file("plain_87a.gif");
  const size_t head = 13 + 3 * 256;
  Bytes many(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(head));
  for (int i = 0; i < 1'000'000; ++i)
    for (const int value : {0x21, 0xFE, 1, 0x78, 0}) many.push_back(static_cast<std::byte>(value));
  many.insert(many.end(), file.begin() + static_cast<std::ptrdiff_t>(head), file.end());
  const Cost cost = cost_of(many);
  BOOST_TEST(cost.code == "");
  BOOST_TEST(cost.bytes < 4 * kMiB);
}

BOOST_AUTO_TEST_SUITE_END()
