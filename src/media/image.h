// Pictures: compressed bytes -> upright RGB -> resized, normalised patches. Pure functions, any
// thread.
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
  int64_t pixels_max =
      50'000'000;  // width * height, checked in the header before anything is allocated
  int32_t side_max = 32'768;
};

// 8-bit RGB, row-major, upright (EXIF orientation applied), transparency laid over white.
struct Image {
  int32_t width = 0;
  int32_t height = 0;
  std::vector<uint8_t> rgb;  // (height, width, 3)
};

// Content decides the format, not a declared type: JPEG, PNG, WebP, GIF or BMP. docs/pictures.md
// says what each kind of file becomes. Of an animation it is the first frame; 16 bits become 8 as
// round(v * 255 / 65535); CMYK values are always taken as inverted, which is what writers produce
// with and without Adobe's marker; gamma and colour profiles are not applied.
// Memory: at most 12 bytes for each pixel of the picture beside the file. Errors, in fixed wording
// without file names or addresses:
//   kInvalidArgument "invalid_image": empty, truncated, damaged, or no picture;
//   kInvalidArgument "unsupported_image": another format, or a rare variant of these; the message
//   says what is accepted; kTooLarge "image_too_large": the header's size is over `limits`;
//   kResourceExhausted: no memory for the pixels.
Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits);

// The bytes of a data URL (RFC 2397: parameters, any case, white space, missing padding, URL-safe
// alphabet, percent-encoded payloads). Anything else, http URLs and bare base64 included, is
// kInvalidArgument "invalid_image_url" with a message that says what works; over bytes_max is
// kTooLarge "image_too_large".
Result<std::vector<std::byte>> decode_data_url(std::string_view url, size_t bytes_max);

// PIL's antialiased bicubic on 8-bit channels, equal to Pillow's result in every bit.
// All sides > 0; allocates width * height * 3 bytes, so the caller bounds the target.
Image resize_bicubic(const Image& image, int32_t width, int32_t height);

// A preprocessed picture: rows are flattened patches in (channel, patch row, patch column) order.
struct ImagePatches {
  std::vector<float> data;  // (grid_height * grid_width, patch_dim)
  int32_t grid_height = 0;  // patches
  int32_t grid_width = 0;
  int32_t patch_dim = 0;
  // Identity of what the model sees: SHA-256, cut to 128 bits, over the resized and cropped pixels,
  // their size and the value each pixel level becomes. Equal hashes mean equal `data`. The key of
  // embedding and prefix caches, which requests of different users share, so nobody may be able to
  // forge one.
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

// Equal to the PIL variant of that processor: shortest edge resized (the other one is int(side *
// long / short)), centre crop with zeros where the picture is smaller, float64 rescale, float32
// normalise. Sides that are no multiple of patch_size lose their remainder at the right and bottom,
// as in the patch convolution. Only the pixels inside the crop are computed, so a 1 x 32768 picture
// costs no more memory than its crop. Without do_center_crop the grid follows the picture: such a
// config needs its own bound on the aspect ratio.
ImagePatches clip_preprocess(const Image& image, const ClipProcessorConfig& config);

}  // namespace hs
