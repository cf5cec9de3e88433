// What the fuzz targets of the picture decoders share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "media/decode.h"

namespace hs::test {

// One decoder's verdict on `file`. Where `signature` says so, its bytes are made those of the
// format (offset, text): decode_image() gives the decoder nothing else. Aborts on what may not be.
inline int try_decoder(Result<Image> (*decode)(std::span<const uint8_t>, const ImageLimits&),
                       std::initializer_list<std::pair<size_t, std::string_view>> signature,
                       std::span<const uint8_t> file) {
  std::vector<uint8_t> bytes(file.begin(), file.end());
  for (const auto& [at, text] : signature) {
    if (bytes.size() < at + text.size()) return 0;
    std::copy(text.begin(), text.end(), bytes.data() + at);
  }
  const ImageLimits limits{.pixels_max = 1 << 20, .side_max = 4096};
  const auto image = decode(bytes, limits);
  if (!image) {
    const std::string& code = image.error().code;
    const bool known =
        code == "invalid_image" || code == "unsupported_image" || code == "image_too_large";
    if (!known || image.error().message.empty()) std::abort();
    return 0;
  }
  if (image->width <= 0 || image->height <= 0 ||
      int64_t{image->width} * image->height > limits.pixels_max)
    std::abort();
  const size_t n = static_cast<size_t>(image->width) * static_cast<size_t>(image->height) * 3;
  if (image->rgb.size() != n) std::abort();
  return 0;
}

}  // namespace hs::test
