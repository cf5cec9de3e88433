// Every kind of JPEG, PNG, WebP, GIF and BMP gives the expected upright RGB; everything else gives
// an error of fixed wording, never a crash.
#include <boost/test/unit_test.hpp>
#include <random>

#include "media/image.h"
#include "media/patterns.h"

using namespace hs;
using namespace hs::test;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> golden_file(const std::string& name) {
  auto bytes = read_file(kGolden + "files/" + name);
  BOOST_REQUIRE_MESSAGE(!bytes.empty(), name);
  return bytes;
}

std::vector<std::byte> changed_file(const std::string& name, size_t at, int value) {
  auto file = golden_file(name);
  file.at(at) = static_cast<std::byte>(value);
  return file;
}

std::string code_of(std::span<const std::byte> file, const ImageLimits& limits = {}) {
  const auto image = decode_image(file, limits);
  return image ? "" : image.error().code;
}

int largest_difference(std::span<const uint8_t> a, std::span<const std::byte> b) {
  int worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - std::to_integer<int>(b[i])));
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(decode_image_tests)

BOOST_AUTO_TEST_CASE(every_golden_file_gives_its_pixels) {
  const nlohmann::json cases = golden_cases()["decode"];
  const auto expected = read_file(kGolden + "pixels.bin");
  BOOST_REQUIRE_GT(cases.size(), 120U);
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.dump()) {
      const auto image = decode_image(golden_file(c["file"]), {});
      BOOST_TEST_REQUIRE(image.has_value(), (image ? "" : image.error().message));
      BOOST_TEST_REQUIRE(image->width == c["width"].get<int32_t>());
      BOOST_TEST_REQUIRE(image->height == c["height"].get<int32_t>());
      const size_t offset = c["offset"];
      BOOST_REQUIRE_LE(offset + image->rgb.size(), expected.size());
      BOOST_TEST(
          largest_difference(image->rgb, std::span(expected).subspan(offset, image->rgb.size())) <=
          c["tolerance"].get<int>());
    }
  }
}

BOOST_AUTO_TEST_CASE(other_formats_are_refused_by_name) {
  const std::pair<std::string, std::vector<std::byte>> files[] = {
      {"TIFF", golden_file("foreign.tiff")},
      {"AVIF", golden_file("foreign.avif")},
      {"JPEG 2000", golden_file("foreign.jpeg2000")},
      {"HEIC", bytes_of(std::string_view("\0\0\0\x18"
                                         "ftypheic\0\0\0\0mif1heic",
                                         24))},
      {"HEIF", bytes_of(std::string_view("\0\0\0\x1C"
                                         "ftypmif1\0\0\0\0mif1avif",
                                         24))},
      {"PostScript", bytes_of("%!PS-Adobe-3.0 EPSF-3.0")},
      {"A WebM or Matroska video", bytes_of("\x1A\x45\xDF\xA3\x9F")},
      {"BMP with 3 bits a pixel", changed_file("palette_4.bmp", 28, 3)},
      {"BMP with compression 11", changed_file("palette_4.bmp", 30, 11)},
      {"BMP around JPEG or PNG data", changed_file("palette_4.bmp", 30, 4)},
      {"BMP with a header of 41 bytes", changed_file("palette_4.bmp", 14, 41)},
      {"BMP with an OS/2 compression", changed_file("header_64.bmp", 30, 3)},
      {"BMP with channels of scattered bits", changed_file("mask_565.bmp", 54, 0x05)},
      {"SVG", bytes_of("<svg xmlns='http://www.w3.org/2000/svg'/>")},
      {"SVG", bytes_of("\xEF\xBB\xBF <?xml version='1.0'?>\n<!-- x --><svg/>")},
      {"An HTML or XML document", bytes_of("<!DOCTYPE html><p>Not found")},
      {"PDF", bytes_of("%PDF-1.7\n")},
      {"JPEG XL", bytes_of("\xFF\x0A\xFA\x7F")},
  };
  for (const auto& [name, file] : files) {
    const auto image = decode_image(file, {});
    BOOST_TEST_REQUIRE(!image, name);
    BOOST_TEST((image.error().kind == ErrorKind::kInvalidArgument));
    BOOST_TEST(image.error().code == "unsupported_image");
    BOOST_TEST(image.error().message ==
               name + " is not supported as an image. Send JPEG, PNG, WebP, GIF or BMP.");
  }
}

BOOST_AUTO_TEST_CASE(empty_and_unknown_bytes_are_invalid) {
  BOOST_TEST(code_of({}) == "invalid_image");
  for (const std::string_view text :
       {"x", "hello, world", "\x89PNG", "\xFF\xD8", "RIFF", "RIFF....WEBP", "RIFF....WAVE", "GIF",
        "GIF88a", "GIF89a", "BX", "BM", "BM, which begins a sentence"})
    BOOST_TEST(code_of(bytes_of(text)) == "invalid_image", text);
}

BOOST_AUTO_TEST_CASE(every_truncated_file_is_an_error) {
  for (const char* name :
       {"orientation_6.jpg", "progressive.jpg", "restart_markers.jpg", "cmyk_adobe.jpg",
        "rgba_16_interlaced.png", "palette_4_alpha.png", "rgb_8.png", "grey_1.png", "lossy.webp",
        "lossless_alpha.webp", "lossy_alpha.webp", "animation.webp", "exif_6.webp", "alpha.bmp"}) {
    const auto file = golden_file(name);
    for (size_t n = 0; n < file.size(); ++n)
      BOOST_TEST_REQUIRE(code_of(std::span(file).first(n)) == "invalid_image",
                         name << " cut at " << n);
  }
}

// What follows a GIF's first frame, the last run of a BMP, and the padding of its last row, is not
// read.
BOOST_AUTO_TEST_CASE(truncated_before_the_last_pixel_is_an_error) {
  for (const auto& [name, unread_bytes] : {std::pair{"interlaced.gif", 1},
                                           {"plain_87a.gif", 1},
                                           {"bgr_24.bmp", 1},
                                           {"palette_1.bmp", 1},
                                           {"header_12.bmp", 3},
                                           {"rle_8.bmp", 5},
                                           {"rle_4.bmp", 5}}) {
    const auto file = golden_file(name);
    for (size_t n = 0; n < file.size() - static_cast<size_t>(unread_bytes); ++n)
      BOOST_TEST_REQUIRE(code_of(std::span(file).first(n)) == "invalid_image",
                         name << " cut at " << n);
  }
  const auto animation = golden_file("animation.gif");
  BOOST_TEST(code_of(std::span(animation).first(animation.size() - 100)) == "");
}

BOOST_AUTO_TEST_CASE(declared_lengths_are_not_trusted) {
  // Sizes of chunks and palettes, offsets, the number of colours: as large as they can be.
  for (const auto& [name, at] : {std::pair{"lossless.webp", 4},
                                 {"lossless.webp", 16},
                                 {"exif_6.webp", 16},
                                 {"animation.webp", 34},
                                 {"palette_8.bmp", 10},
                                 {"header_64.bmp", 10}}) {
    auto file = golden_file(name);
    for (size_t i = 0; i < 4; ++i) file[static_cast<size_t>(at) + i] = std::byte{0xFF};
    BOOST_TEST(code_of(file) == "invalid_image", name << " at " << at);
  }
  auto colours = golden_file("palette_8.bmp");
  for (size_t i = 46; i < 50; ++i) colours[i] = std::byte{0xFF};
  BOOST_TEST(code_of(colours) == "");  // the gap before the pixels says what there is
}

BOOST_AUTO_TEST_CASE(gif_without_a_frame_is_an_error) {
  const auto file = golden_file("animation.gif");
  auto bare = std::vector<std::byte>(file.begin(), file.begin() + 13 + 3 * 256);
  BOOST_TEST(code_of(bare) == "invalid_image");
  bare.push_back(std::byte{';'});
  BOOST_TEST(code_of(bare) == "invalid_image");
}

BOOST_AUTO_TEST_CASE(jpeg_without_the_end_of_its_data_is_an_error) {
  auto file = golden_file("subsampling_444.jpg");
  // The end-of-image marker is there, but a third of the entropy-coded data is not.
  file.erase(file.end() - 2 - static_cast<std::ptrdiff_t>(file.size() / 3), file.end() - 2);
  BOOST_TEST(code_of(file) == "invalid_image");
}

BOOST_AUTO_TEST_CASE(png_with_a_wrong_checksum_or_without_its_end_is_an_error) {
  const auto good = golden_file("rgb_8.png");
  const std::string_view text(reinterpret_cast<const char*>(good.data()), good.size());
  for (const char* chunk : {"IHDR", "IDAT", "IEND"}) {
    auto bad = good;
    const size_t at = text.find(chunk);
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<size_t>(good[at - 4 + i]);
    bad[at + 4 + length] ^= std::byte{1};  // first byte of the checksum
    BOOST_TEST(code_of(bad) == "invalid_image", chunk);
  }
  BOOST_TEST(code_of(std::span(good).first(good.size() - 12)) == "invalid_image");
}

BOOST_AUTO_TEST_CASE(one_wrong_byte_gives_an_error_or_a_picture) {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const char* name :
       {"orientation_5.jpg", "progressive.jpg", "ycck.jpg", "grey_16_interlaced.png",
        "palette_2_alpha.png", "rgba_8.png", "lossy_alpha.webp", "lossless.webp",
        "animation_offset.webp", "animation.gif", "offset.gif", "rle_8.bmp", "alpha.bmp",
        "header_12.bmp", "mask_10_bits.bmp"}) {
    const auto good = golden_file(name);
    for (size_t at = 0; at < good.size(); ++at) {
      auto bad = good;
      bad[at] ^= static_cast<std::byte>(1 + random() % 255);
      const auto image = decode_image(bad, {.pixels_max = 1'000'000, .side_max = 4096});
      if (image)
        BOOST_TEST_REQUIRE(image->rgb.size() == static_cast<size_t>(image->width) *
                                                    static_cast<size_t>(image->height) * 3,
                           name << " byte " << at << " seed " << seed);
      else
        BOOST_TEST_REQUIRE(!image.error().code.empty(), name << " byte " << at << " seed " << seed);
    }
  }
}

BOOST_AUTO_TEST_CASE(limits_hold_to_the_pixel) {
  const auto file = golden_file("orientation_6.jpg");  // 32 x 64 as stored
  BOOST_TEST(code_of(file, {.pixels_max = 2048, .side_max = 64}) == "");
  BOOST_TEST(code_of(file, {.pixels_max = 2047, .side_max = 64}) == "image_too_large");
  BOOST_TEST(code_of(file, {.pixels_max = 2048, .side_max = 63}) == "image_too_large");
  const auto error = decode_image(file, {.pixels_max = 2047, .side_max = 64}).error();
  BOOST_TEST((error.kind == ErrorKind::kTooLarge));
  BOOST_TEST(error.message.find("32 x 64") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(jpeg_of_too_many_scans_is_refused) {
  auto file = golden_file("progressive.jpg");
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t scan = text.find("\xFF\xDA");
  const size_t next = text.find("\xFF\xDA", scan + 2);
  const std::vector<std::byte> again(file.begin() + static_cast<std::ptrdiff_t>(scan),
                                     file.begin() + static_cast<std::ptrdiff_t>(next));
  for (int i = 0; i < 200; ++i)
    file.insert(file.begin() + static_cast<std::ptrdiff_t>(scan), again.begin(), again.end());
  BOOST_TEST(code_of(file) == "invalid_image");
}

BOOST_AUTO_TEST_CASE(rare_jpeg_variants_are_refused_by_name) {
  const auto good = golden_file("subsampling_444.jpg");
  const std::string_view text(reinterpret_cast<const char*>(good.data()), good.size());
  const size_t frame = text.find("\xFF\xC0");
  const auto changed = [&](size_t at, int value) {
    auto file = good;
    file[frame + at] = static_cast<std::byte>(value);
    return code_of(file);
  };
  BOOST_TEST(changed(1, 0xC3) == "unsupported_image");  // lossless
  BOOST_TEST(changed(4, 12) == "unsupported_image");    // 12 bits
  BOOST_TEST(changed(9, 2) == "unsupported_image");     // two channels
}

BOOST_AUTO_TEST_SUITE_END()
