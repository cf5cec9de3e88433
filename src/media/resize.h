// Antialiased bicubic resampling of 8-bit RGB, bit for bit as Pillow does it, of a window of the
// result.
#pragma once

#include <cstdint>

#include "media/image.h"

namespace hs {

// A rectangle of the resized picture, in its pixels.
struct ResizeWindow {
  int64_t left = 0;
  int64_t top = 0;
  int32_t width = 0;
  int32_t height = 0;
};

// The pixels that `window` shows of `image` resized to width x height. The window lies inside; all
// sides are > 0. Time and memory follow the window and the source rows it needs, not width x
// height.
Image resize_bicubic_window(const Image& image, int64_t width, int64_t height,
                            const ResizeWindow& window);

}  // namespace hs
