// Any bytes decode to a picture of the size it claims, or give an error with a code; a picture
// always preprocesses.
#include <cstdlib>

#include "media/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = hs::decode_image(std::as_bytes(std::span(data, size)),
                                      {.pixels_max = 1 << 20, .side_max = 4096});
  if (!image) {
    if (image.error().message.empty()) std::abort();
    return 0;
  }
  if (image->rgb.size() !=
      size_t{3} * static_cast<size_t>(image->width) * static_cast<size_t>(image->height))
    std::abort();
  if (hs::clip_preprocess(*image, {.shortest_edge = 56, .crop_width = 56, .crop_height = 56})
          .data.size() != 56U * 56 * 3)
    std::abort();
  return 0;
}
