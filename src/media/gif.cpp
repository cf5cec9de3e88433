// GIF (87a and 89a) through giflib: the first frame, on its screen. Lines are read one by one, so
// that the library itself never allocates by what the file claims.
#include <gif_lib.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "media/decode.h"

namespace hs {
namespace {

constexpr std::string_view kDamaged = "The GIF image is damaged or truncated.";

struct GifSource {
  std::span<const uint8_t> rest;

  static int read(GifFileType* gif, GifByteType* to, int length) {
    auto& self = *static_cast<GifSource*>(gif->UserData);
    const size_t n = std::min(self.rest.size(), static_cast<size_t>(std::max(length, 0)));
    std::copy_n(self.rest.data(), n, to);
    self.rest = self.rest.subspan(n);
    return static_cast<int>(n);
  }
};

struct GifClose {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

// Passes over one extension with all its blocks; of a graphic control extension it keeps the
// transparent index.
bool read_extension(GifFileType* gif, std::optional<int>& transparent) {
  constexpr size_t kControlBytes = 4;
  int code = 0;
  GifByteType* block = nullptr;  // its length, then as many bytes
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return false;
  if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr && block[0] == kControlBytes) {
    GraphicsControlBlock control{};
    DGifExtensionToGCB(kControlBytes, block + 1, &control);
    transparent.reset();
    if (control.TransparentColor != NO_TRANSPARENT_COLOR) transparent = control.TransparentColor;
  }
  while (block != nullptr)
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return false;
  return true;
}

// Up to the first frame's description. False: there is none.
bool find_frame(GifFileType* gif, std::optional<int>& transparent) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR) return false;
    if (record == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(gif) != GIF_ERROR;
    if (record != EXTENSION_RECORD_TYPE || !read_extension(gif, transparent)) return false;
  }
}

struct FramePalette {
  uint8_t rgb[256][3];
};

// The frame's own table, else the file's. Without any, an index is a level of grey; an index
// outside the table is black.
FramePalette frame_palette(const GifFileType& gif) {
  FramePalette palette{};
  const ColorMapObject* map = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap;
  for (int i = 0; i < 256; ++i) {
    uint8_t* rgb = palette.rgb[i];
    if (map == nullptr) {
      std::fill_n(rgb, 3, static_cast<uint8_t>(i));
    } else if (i < map->ColorCount) {
      const GifColorType& colour = map->Colors[i];
      rgb[0] = colour.Red;
      rgb[1] = colour.Green;
      rgb[2] = colour.Blue;
    }
  }
  return palette;
}

// The frame's lines in the order of the file: one pass, or four when interlaced.
bool draw_frame(GifFileType* gif, std::optional<int> transparent, Image& screen) {
  struct Pass {
    int first;
    int step;
  };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  constexpr Pass kWhole[] = {{0, 1}};
  const GifImageDesc& frame = gif->Image;
  const FramePalette palette = frame_palette(*gif);
  std::vector<uint8_t> line(static_cast<size_t>(frame.Width));
  const auto passes = frame.Interlace ? std::span<const Pass>(kInterlaced) : std::span(kWhole);
  for (const Pass& pass : passes) {
    for (int y = pass.first; y < frame.Height; y += pass.step) {
      if (DGifGetLine(gif, line.data(), frame.Width) == GIF_ERROR) return false;
      uint8_t* to = screen.rgb.data() +
                    (static_cast<size_t>(frame.Top + y) * static_cast<size_t>(screen.width) +
                     static_cast<size_t>(frame.Left)) *
                        3;
      for (const uint8_t index : line) {
        if (!transparent || index != *transparent) std::copy_n(palette.rgb[index], 3, to);
        to += 3;
      }
    }
  }
  return true;
}

}  // namespace

Result<Image> decode_gif(std::span<const uint8_t> file, const ImageLimits& limits) {
  GifSource source{file};
  const std::unique_ptr<GifFileType, GifClose> gif(DGifOpen(&source, GifSource::read, nullptr));
  std::optional<int> transparent;
  if (!gif || !find_frame(gif.get(), transparent)) return invalid_image(std::string(kDamaged));
  // A frame that reaches beyond the screen enlarges it.
  const GifImageDesc& frame = gif->Image;
  const int64_t width = std::max(gif->SWidth, frame.Left + frame.Width);
  const int64_t height = std::max(gif->SHeight, frame.Top + frame.Height);
  if (const Status ok = check_image_size(width, height, limits); !ok)
    return std::unexpected(ok.error());
  if (frame.Width == 0 || frame.Height == 0) return invalid_image("The image has no pixels.");
  Image screen = white_image(width, height);
  if (!draw_frame(gif.get(), transparent, screen)) return invalid_image(std::string(kDamaged));
  return screen;
}

}  // namespace hs
