// What the decoders of src/media share: one function a format, one wording for each failure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "media/image.h"

namespace hs {

// Upright pixels of one file whose first bytes say that it is of this format. Errors: those of
// decode_image.
Result<Image> decode_jpeg(std::span<const uint8_t> file, const ImageLimits& limits);
Result<Image> decode_png(std::span<const uint8_t> file, const ImageLimits& limits);

std::unexpected<Error> invalid_image(std::string message);
// "`what` is not supported. Send JPEG or PNG."
std::unexpected<Error> unsupported_image(std::string_view what);

// Before pixels are allocated. A zero side is invalid_image.
Status check_image_size(int64_t width, int64_t height, const ImageLimits& limits);

}  // namespace hs
