#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "media/decode.h"
#include "media/image.h"

namespace hs {
namespace {

constexpr std::string_view kAccepted = "JPEG, PNG, WebP, GIF or BMP";

// Formats that are recognised only to say what was sent. `at`: offset of `bytes` in the file.
struct Signature {
  std::string_view name;
  size_t at;
  std::string_view bytes;
};
using namespace std::string_view_literals;
constexpr Signature kSignatures[] = {
    {"TIFF", 0, "II*\0"sv},
    {"TIFF", 0, "MM\0*"sv},
    {"BigTIFF", 0, "II+\0"sv},
    {"BigTIFF", 0, "MM\0+"sv},
    {"AVIF", 4, "ftypavif"sv},
    {"AVIF", 4, "ftypavis"sv},
    {"HEIC", 4, "ftypheic"sv},
    {"HEIC", 4, "ftypheix"sv},
    {"HEIC", 4, "ftyphevc"sv},
    {"HEIC", 4, "ftypheim"sv},
    {"HEIC", 4, "ftypheis"sv},
    {"HEIF", 4, "ftypmif1"sv},
    {"HEIF", 4, "ftypmsf1"sv},
    {"An MP4 video", 4, "ftyp"sv},
    {"JPEG XL", 0, "\xFF\x0A"sv},
    {"JPEG XL", 0, "\0\0\0\x0CJXL "sv},
    {"JPEG 2000", 0, "\0\0\0\x0CjP  "sv},
    {"JPEG 2000", 0, "\xFF\x4F\xFF\x51"sv},
    {"PDF", 0, "%PDF-"sv},
    {"Photoshop", 0, "8BPS"sv},
    {"PostScript", 0, "%!PS"sv},
    {"ICO", 0, "\0\0\1\0"sv},
    {"CUR", 0, "\0\0\2\0"sv},
    {"QOI", 0, "qoif"sv},
    {"MNG", 0, "\x8AMNG"sv},
    {"A WebM or Matroska video", 0, "\x1A\x45\xDF\xA3"sv},
    {"A gzip file", 0, "\x1F\x8B"sv},
};

std::string_view strip_leading_space(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t start = text.find_first_not_of(" \t\r\n");
  return start == std::string_view::npos ? std::string_view{} : text.substr(start);
}

// "" if the content is of no format known by name.
std::string_view foreign_format(std::string_view file) {
  for (const Signature& s : kSignatures)
    if (file.size() >= s.at + s.bytes.size() && file.substr(s.at, s.bytes.size()) == s.bytes)
      return s.name;
  const std::string_view head = strip_leading_space(file.substr(0, 1024));
  if (head.starts_with("<svg")) return "SVG";
  if (head.starts_with("<?xml") && head.find("<svg") != std::string_view::npos) return "SVG";
  if (head.starts_with("<")) return "An HTML or XML document";
  return {};
}

Result<Image> decode(std::span<const uint8_t> file, const ImageLimits& limits) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.empty()) return invalid_image("The image is empty.");
  if (text.starts_with("\xFF\xD8\xFF")) return decode_jpeg(file, limits);
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return decode_png(file, limits);
  if (text.size() >= 12 && text.starts_with("RIFF") && text.substr(8, 4) == "WEBP")
    return decode_webp(file, limits);
  if (text.starts_with("GIF87a") || text.starts_with("GIF89a")) return decode_gif(file, limits);
  // Two letters are little to go by, so the size of the header behind them has to be one, too.
  if (text.starts_with("BM") && text.size() >= 18 && little_u32(file, 14) <= 124)
    return decode_bmp(file, limits);
  if (const std::string_view name = foreign_format(text); !name.empty())
    return unsupported_image(name);
  return invalid_image(fmt::format(
      "The image is of no known format, or cut off in its first bytes. Send {}.", kAccepted));
}

}  // namespace

std::unexpected<Error> invalid_image(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message), "invalid_image");
}

std::unexpected<Error> unsupported_image(std::string_view what) {
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is not supported as an image. Send {}.", what, kAccepted),
              "unsupported_image");
}

Status check_image_size(int64_t width, int64_t height, const ImageLimits& limits) {
  if (width <= 0 || height <= 0) return invalid_image("The image has no pixels.");
  if (width > limits.side_max || height > limits.side_max || width * height > limits.pixels_max)
    return fail(ErrorKind::kTooLarge,
                fmt::format("The image has {} x {} pixels; at most {} a side and {} in all are "
                            "accepted.",
                            width, height, limits.side_max, limits.pixels_max),
                "image_too_large");
  return {};
}

Image white_image(int64_t width, int64_t height) {
  Image image{static_cast<int32_t>(width), static_cast<int32_t>(height), {}};
  image.rgb.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 255);
  return image;
}

uint32_t little_u16(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at] | bytes[at + 1] << 8);
}
uint32_t little_u32(std::span<const uint8_t> bytes, size_t at) {
  return little_u16(bytes, at) | little_u16(bytes, at + 2) << 16;
}

Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits) {
  try {
    return decode({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, limits);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kResourceExhausted, "There is no memory for the image's pixels now.");
  }
}

}  // namespace hs
