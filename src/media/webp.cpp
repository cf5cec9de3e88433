// WebP (RFC 9649) through libwebp. The chunks are walked here first: for the EXIF orientation, for
// the first frame of an animation, and so that size and completeness are known before anything is
// allocated.
#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "media/decode.h"
#include "media/orientation.h"

namespace hs {
namespace {

constexpr std::string_view kDamaged = "The WebP image is damaged or truncated.";
constexpr size_t kRiffBytes = 12;   // "RIFF", size, "WEBP"
constexpr size_t kChunkBytes = 8;   // type and size before a chunk's data
constexpr size_t kFrameBytes = 16;  // position, size and timing before a frame's chunks

struct WebpWalk {
  int64_t width = 0;  // of the canvas; 0 without a VP8X chunk
  int64_t height = 0;
  int orientation = 1;
  bool animated = false;
  bool complete = false;
  // Of the first frame of an animation:
  std::span<const uint8_t> frame;  // its chunks
  int64_t frame_x = 0;
  int64_t frame_y = 0;
};

int64_t little_u24(std::span<const uint8_t> bytes, size_t at) {
  return int64_t{bytes[at]} | int64_t{bytes[at + 1]} << 8 | int64_t{bytes[at + 2]} << 16;
}

void read_chunk(std::string_view type, std::span<const uint8_t> data, bool& exif_seen,
                WebpWalk& walk) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  if (type == "VP8X" && walk.width == 0 && data.size() >= 10) {
    constexpr uint8_t kAnimation = 0x02;
    walk.animated = (data[0] & kAnimation) != 0;
    walk.width = little_u24(data, 4) + 1;
    walk.height = little_u24(data, 7) + 1;
  } else if (type == "ANMF" && walk.frame.empty() && data.size() > kFrameBytes) {
    walk.frame_x = little_u24(data, 0) * 2;
    walk.frame_y = little_u24(data, 3) * 2;
    walk.frame = data.subspan(kFrameBytes);
  } else if (type == "EXIF" && !exif_seen) {
    exif_seen = true;
    // Some writers keep the prefix that the block has in a JPEG.
    const bool prefixed =
        data.size() >= kExif.size() && std::memcmp(data.data(), kExif.data(), kExif.size()) == 0;
    walk.orientation = exif_orientation(prefixed ? data.subspan(kExif.size()) : data);
  }
}

WebpWalk walk_chunks(std::span<const uint8_t> file) {
  WebpWalk walk;
  const size_t size = little_u32(file, 4);
  walk.complete = size >= 4 && size <= file.size() - kChunkBytes;
  std::span<const uint8_t> rest = file.subspan(kRiffBytes);
  if (walk.complete) rest = rest.first(size - 4);
  bool exif_seen = false;
  while (rest.size() >= kChunkBytes) {
    const std::string_view type(reinterpret_cast<const char*>(rest.data()), 4);
    const size_t length = little_u32(rest, 4);
    rest = rest.subspan(kChunkBytes);
    if (length > rest.size()) {
      walk.complete = false;
      break;
    }
    read_chunk(type, rest.first(length), exif_seen, walk);
    rest = rest.subspan(std::min(length + (length & 1), rest.size()));  // data is padded to words
  }
  return walk;
}

struct BufferFree {
  void operator()(WebPDecBuffer* buffer) const { WebPFreeDecBuffer(buffer); }
};

// Pixels of `chunks` in (height, width, channels) order; empty if they are damaged.
std::vector<uint8_t> decode_chunks(std::span<const uint8_t> chunks,
                                   const WebPBitstreamFeatures& features) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return {};
  const std::unique_ptr<WebPDecBuffer, BufferFree> buffer(&config.output);
  const size_t stride = static_cast<size_t>(features.width) * (features.has_alpha != 0 ? 4 : 3);
  std::vector<uint8_t> pixels(stride * static_cast<size_t>(features.height));
  config.output.colorspace = features.has_alpha != 0 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels.data();
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = pixels.size();
  const VP8StatusCode status = WebPDecode(chunks.data(), chunks.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();  // decode_image() tells it
  if (status != VP8_STATUS_OK) pixels.clear();
  return pixels;
}

// (n_pixels, 4) RGBA -> (n_pixels, 3) RGB over white, in place.
void flatten(std::vector<uint8_t>& pixels) {
  const size_t n = pixels.size() / 4;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t alpha = pixels[i * 4 + 3];
    for (size_t c = 0; c < 3; ++c) pixels[i * 3 + c] = over_white(pixels[i * 4 + c], alpha);
  }
  pixels.resize(n * 3);
}

// The first frame on a white canvas.
Image on_canvas(Image frame, const WebpWalk& walk) {
  if (frame.width == walk.width && frame.height == walk.height) return frame;
  Image canvas = white_image(walk.width, walk.height);
  const size_t row = static_cast<size_t>(frame.width) * 3;
  const auto x = static_cast<size_t>(walk.frame_x);
  const auto top = static_cast<size_t>(walk.frame_y);
  for (size_t y = 0; y < static_cast<size_t>(frame.height); ++y)
    std::copy_n(frame.rgb.data() + y * row, row,
                canvas.rgb.data() + ((top + y) * static_cast<size_t>(walk.width) + x) * 3);
  return canvas;
}

}  // namespace

Result<Image> decode_webp(std::span<const uint8_t> file, const ImageLimits& limits) {
  const WebpWalk walk = walk_chunks(file);
  if (walk.width > 0)
    if (const Status ok = check_image_size(walk.width, walk.height, limits); !ok)
      return std::unexpected(ok.error());
  const std::span<const uint8_t> chunks = walk.animated ? walk.frame : file;
  WebPBitstreamFeatures features;
  if (chunks.empty() || WebPGetFeatures(chunks.data(), chunks.size(), &features) != VP8_STATUS_OK)
    return invalid_image(std::string(kDamaged));
  if (const Status ok = check_image_size(features.width, features.height, limits); !ok)
    return std::unexpected(ok.error());
  if (!walk.complete || features.has_animation != 0) return invalid_image(std::string(kDamaged));
  if (walk.animated &&
      (walk.frame_x + features.width > walk.width || walk.frame_y + features.height > walk.height))
    return invalid_image(std::string(kDamaged));

  Image image{features.width, features.height, decode_chunks(chunks, features)};
  if (image.rgb.empty()) return invalid_image(std::string(kDamaged));
  if (features.has_alpha != 0) flatten(image.rgb);
  if (walk.animated) image = on_canvas(std::move(image), walk);
  return apply_orientation(std::move(image), walk.orientation);
}

}  // namespace hs
