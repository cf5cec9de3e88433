// Hugging Face's CLIPImageProcessor, PIL variant
// (transformers/models/clip/image_processing_pil_clip.py).
#include <algorithm>

#include "base/check.h"
#include "media/image.h"
#include "media/patches.h"
#include "media/resize.h"

namespace hs {
namespace {

struct Size {
  int64_t width = 0;
  int64_t height = 0;
};

// Python's int(size * long / short): a true division, cut.
int64_t long_edge(int64_t size, int64_t longer, int64_t shorter) {
  return static_cast<int64_t>(static_cast<double>(size * longer) / static_cast<double>(shorter));
}

Size resized_size(const Image& image, const ClipProcessorConfig& config) {
  const int64_t edge = config.shortest_edge;
  if (!config.do_resize) return {image.width, image.height};
  if (image.width <= image.height) return {edge, long_edge(edge, image.height, image.width)};
  return {long_edge(edge, image.width, image.height), edge};
}

// Along one axis: the part of the resized picture that is used, and where it lands in the result.
struct Crop {
  int64_t from = 0;
  int32_t to = 0;
  int32_t count = 0;
};

// The processor pads with ceil((crop - size) / 2) zeros before the picture and then cuts at
// floor((size - crop) / 2) + that padding, which is 0 where it pads.
Crop centre_crop(int64_t size, int32_t crop) {
  if (size >= crop) return {(size - crop) / 2, 0, crop};
  const auto small = static_cast<int32_t>(size);
  return {0, (crop - small + 1) / 2, small};
}

// The picture after resize and crop.
Image cropped_pixels(const Image& image, const ClipProcessorConfig& config) {
  const Size size = resized_size(image, config);
  const auto width = static_cast<int32_t>(config.do_center_crop ? config.crop_width : size.width);
  const auto height =
      static_cast<int32_t>(config.do_center_crop ? config.crop_height : size.height);
  const Crop x = centre_crop(size.width, width);
  const Crop y = centre_crop(size.height, height);
  Image part =
      resize_bicubic_window(image, size.width, size.height, {x.from, y.from, x.count, y.count});
  if (part.width == width && part.height == height) return part;
  Image padded{width, height, {}};
  padded.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  const size_t row = static_cast<size_t>(part.width) * 3;
  for (int32_t line = 0; line < part.height; ++line)
    std::copy_n(part.rgb.data() + static_cast<size_t>(line) * row, row,
                padded.rgb.data() + (static_cast<size_t>(line + y.to) * static_cast<size_t>(width) +
                                     static_cast<size_t>(x.to)) *
                                        3);
  return padded;
}

}  // namespace

ImagePatches clip_preprocess(const Image& image, const ClipProcessorConfig& config) {
  HS_CHECK(config.crop_width > 0 && config.crop_height > 0 && config.shortest_edge > 0);
  return make_patches(cropped_pixels(image, config), level_rules(config),
                      {.processor = {'c', 'l', 'i', 'p', '-', 'r', 'g', 'b'},
                       .patch_size = config.patch_size,
                       .merge_size = 1});
}

}  // namespace hs
