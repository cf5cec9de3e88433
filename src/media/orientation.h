// EXIF orientation: finding it in hostile bytes, and turning pixels upright.
#pragma once

#include <cstdint>
#include <span>

#include "media/image.h"

namespace hs {

// The value of tag 0x0112 in the first directory of a TIFF block (what follows "Exif\0\0" in a
// JPEG, or a PNG's eXIf chunk): 1 to 8. A block that is cut off, malformed or holds another value
// gives 1, as if there were none.
int exif_orientation(std::span<const uint8_t> tiff);

// The upright picture for `orientation` (1 to 8; CIPA DC-008, tag Orientation). 5 to 8 exchange
// width and height.
Image apply_orientation(Image image, int orientation);

}  // namespace hs
