// Any bytes decode to a picture of the size it claims, or give an error with a code; a picture
// always preprocesses.
#include <cstdlib>

#include "media/image.h"
#include "media/qwen_preprocess.h"

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
  const hs::QwenProcessorConfig config{.max_pixels = 112 * 112};
  const auto patches = hs::qwen_preprocess(*image, config);
  if (!patches) return patches.error().code == "invalid_image" ? 0 : (std::abort(), 0);
  const int64_t n_patches = int64_t{patches->grid_height} * patches->grid_width;
  if (n_patches <= 0 || n_patches > hs::qwen_patches_max(config)) std::abort();
  if (patches->data.size() != static_cast<size_t>(n_patches * 588)) std::abort();
  return 0;
}
