// Pictures: compressed bytes -> upright RGB -> resized, normalised patches. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

struct ImageLimits {
  int64_t pixels_max = 50'000'000;  // width * height, checked in the header before anything is allocated
  int32_t side_max = 32'768;
};

// 8-bit RGB, row-major, upright (EXIF orientation applied), transparency laid over white.
struct Image {
  int32_t width = 0;
  int32_t height = 0;
  std::vector<uint8_t> rgb;  // (height, width, 3)
};

// Content decides the format, not a declared type. Errors: kInvalidArgument code "invalid_image", fixed wording.
Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits);

// The bytes of a data URL (RFC 2397: parameters, any case, white space, missing padding, URL-safe alphabet).
// Anything else, http URLs and bare base64 included, is kInvalidArgument with a message that says what works.
Result<std::vector<std::byte>> decode_data_url(std::string_view url, size_t bytes_max);

// PIL's antialiased bicubic, within 1 of 255.
Image resize_bicubic(const Image& image, int32_t width, int32_t height);

// A preprocessed picture: rows are flattened patches in (channel, patch row, patch column) order.
struct ImagePatches {
  std::vector<float> data;  // (grid_height * grid_width, patch_dim)
  int32_t grid_height = 0;  // patches
  int32_t grid_width = 0;
  int32_t patch_dim = 0;
  // Identity of decoded pixels, size and preprocessing: the key of embedding and prefix caches.
  uint64_t content_hash[2] = {0, 0};
};

// HF's CLIPImageProcessor for one picture.
struct ClipProcessorConfig {
  int32_t shortest_edge = 336;
  int32_t crop_width = 336;
  int32_t crop_height = 336;
  bool do_resize = true;
  bool do_center_crop = true;
  bool do_rescale = true;
  bool do_normalize = true;
  double rescale_factor = 1.0 / 255.0;
  float mean[3] = {0.48145466F, 0.4578275F, 0.40821073F};
  float std[3] = {0.26862954F, 0.26130258F, 0.27577711F};
  int32_t patch_size = 14;
};
ImagePatches clip_preprocess(const Image& image, const ClipProcessorConfig& config);

}  // namespace hs
