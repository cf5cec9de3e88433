// Hugging Face's CLIPImageProcessor, PIL variant
// (transformers/models/clip/image_processing_pil_clip.py).
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "media/image.h"
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

// What each 8-bit level of each channel becomes. Rescaling multiplies in float64 and rounds to
// float32; the normalisation computes in float32.
using Levels = std::array<std::array<float, 256>, 3>;

Levels make_levels(const ClipProcessorConfig& config) {
  Levels levels{};
  for (size_t c = 0; c < 3; ++c) {
    for (size_t v = 0; v < 256; ++v) {
      auto level = static_cast<float>(v);
      if (config.do_rescale)
        level = static_cast<float>(static_cast<double>(v) * config.rescale_factor);
      if (config.do_normalize) level = (level - config.mean[c]) / config.std[c];
      levels[c][v] = level;
    }
  }
  return levels;
}

void write_patches(const Image& pixels, const Levels& levels, int32_t patch, ImagePatches& out) {
  const size_t row = static_cast<size_t>(pixels.width) * 3;
  const auto side = static_cast<size_t>(patch);
  float* to = out.data.data();
  for (size_t gy = 0; gy < static_cast<size_t>(out.grid_height); ++gy) {
    for (size_t gx = 0; gx < static_cast<size_t>(out.grid_width); ++gx) {
      const uint8_t* corner = pixels.rgb.data() + gy * side * row + gx * side * 3;
      for (size_t c = 0; c < 3; ++c)
        for (size_t y = 0; y < side; ++y)
          for (size_t x = 0; x < side; ++x) *to++ = levels[c][corner[y * row + x * 3 + c]];
    }
  }
}

// Hashing pixels and levels instead of `data` says the same with a quarter of the bytes.
void hash_content(const Image& pixels, const Levels& levels, const ClipProcessorConfig& config,
                  uint64_t hash[2]) {
  struct Header {
    char domain[8];  // keeps the keys of different preprocessors apart
    int32_t width;
    int32_t height;
    int32_t patch_size;
    int32_t reserved;
  };
  const Header header{
      {'c', 'l', 'i', 'p', '-', 'r', 'g', 'b'}, pixels.width, pixels.height, config.patch_size, 0};
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  HS_CHECK(context != nullptr);
  const bool done = EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1 &&
                    EVP_DigestUpdate(context, &header, sizeof header) == 1 &&
                    EVP_DigestUpdate(context, levels.data(), sizeof levels) == 1 &&
                    EVP_DigestUpdate(context, pixels.rgb.data(), pixels.rgb.size()) == 1 &&
                    EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1;
  EVP_MD_CTX_free(context);
  HS_CHECK(done);
  std::memcpy(hash, digest.data(), 2 * sizeof *hash);
}

}  // namespace

ImagePatches clip_preprocess(const Image& image, const ClipProcessorConfig& config) {
  HS_CHECK(config.patch_size > 0 && config.crop_width > 0 && config.crop_height > 0 &&
           config.shortest_edge > 0);
  const Image pixels = cropped_pixels(image, config);
  const Levels levels = make_levels(config);
  ImagePatches patches;
  patches.grid_height = pixels.height / config.patch_size;
  patches.grid_width = pixels.width / config.patch_size;
  patches.patch_dim = 3 * config.patch_size * config.patch_size;
  patches.data.resize(static_cast<size_t>(patches.grid_height) *
                      static_cast<size_t>(patches.grid_width) *
                      static_cast<size_t>(patches.patch_dim));
  write_patches(pixels, levels, config.patch_size, patches);
  hash_content(pixels, levels, config, patches.content_hash);
  return patches;
}

}  // namespace hs
