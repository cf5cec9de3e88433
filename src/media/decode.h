// What the decoders of src/media share: one function a format, one wording for each failure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "media/image.h"

namespace hs {

// Upright pixels of one file whose first bytes say that it is of this format. Errors: those of
// decode_image.
Result<Image> decode_bmp(std::span<const uint8_t> file, const ImageLimits& limits);
Result<Image> decode_gif(std::span<const uint8_t> file, const ImageLimits& limits);
Result<Image> decode_jpeg(std::span<const uint8_t> file, const ImageLimits& limits);
Result<Image> decode_png(std::span<const uint8_t> file, const ImageLimits& limits);
Result<Image> decode_webp(std::span<const uint8_t> file, const ImageLimits& limits);

std::unexpected<Error> invalid_image(std::string message);
// "`what` is not supported as an image. Send JPEG, PNG, WebP, GIF or BMP."
std::unexpected<Error> unsupported_image(std::string_view what);

// Before pixels are allocated. A zero side is invalid_image.
Status check_image_size(int64_t width, int64_t height, const ImageLimits& limits);

// A picture of checked size, all of it white: what transparency is laid over.
Image white_image(int64_t width, int64_t height);

// An unsigned integer, lowest byte first. REQUIRES: it lies inside.
uint32_t little_u16(std::span<const uint8_t> bytes, size_t at);
uint32_t little_u32(std::span<const uint8_t> bytes, size_t at);

// One channel over white, all of it in 8 bits: round((v * a + 255 * (255 - a)) / 255).
inline uint8_t over_white(uint32_t v, uint32_t a) {
  const uint32_t t = v * a + 255 * (255 - a) + 128;
  return static_cast<uint8_t>(((t >> 8) + t) >> 8);
}

}  // namespace hs
