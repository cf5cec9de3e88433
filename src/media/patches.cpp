#include "media/patches.h"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "base/check.h"

namespace hs {
namespace {

using PixelLevels = std::array<std::array<float, 256>, 3>;  // (channel, level): what it becomes

PixelLevels make_pixel_levels(const LevelRules& rules) {
  PixelLevels levels{};
  for (size_t c = 0; c < 3; ++c) {
    for (size_t v = 0; v < 256; ++v) {
      auto level = static_cast<float>(v);
      if (rules.do_rescale)
        level = static_cast<float>(static_cast<double>(v) * rules.rescale_factor);
      if (rules.do_normalize) level = (level - rules.mean[c]) / rules.std[c];
      levels[c][v] = level;
    }
  }
  return levels;
}

// One patch of `side` x `side` pixels in (channel, row, column) order. `corner`: its upper left
// pixel; `row_bytes` from one row of pixels to the next. Returns the end of what was written.
float* write_patch(const uint8_t* corner, size_t row_bytes, size_t side, const PixelLevels& levels,
                   float* out) {
  for (size_t c = 0; c < 3; ++c)
    for (size_t y = 0; y < side; ++y)
      for (size_t x = 0; x < side; ++x) *out++ = levels[c][corner[y * row_bytes + x * 3 + c]];
  return out;
}

void write_patches(const Image& pixels, const PixelLevels& levels, const PatchLayout& layout,
                   ImagePatches& out) {
  const size_t row = static_cast<size_t>(pixels.width) * 3;
  const auto side = static_cast<size_t>(layout.patch_size);
  const auto merge = static_cast<size_t>(layout.merge_size);
  float* to = out.data.data();
  for (size_t by = 0; by < static_cast<size_t>(out.grid_height); by += merge)
    for (size_t bx = 0; bx < static_cast<size_t>(out.grid_width); bx += merge)
      for (size_t y = by; y < by + merge; ++y)
        for (size_t x = bx; x < bx + merge; ++x)
          to =
              write_patch(pixels.rgb.data() + y * side * row + x * side * 3, row, side, levels, to);
}

// SHA-256, cut to 128 bits, over layout, size, levels and pixels: the same as over what the model
// sees, with a quarter of the bytes.
void hash_pixels(const Image& pixels, const PixelLevels& levels, const PatchLayout& layout,
                 uint64_t hash[2]) {
  struct Header {
    PatchLayout layout;
    int32_t width;  // with the patch size, the grid and so the positions
    int32_t height;
  };
  static_assert(sizeof(Header) == 24, "padding would be hashed");
  const Header header{layout, pixels.width, pixels.height};
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

ImagePatches make_patches(const Image& pixels, const LevelRules& rules, const PatchLayout& layout) {
  HS_CHECK(layout.patch_size > 0 && layout.merge_size > 0);
  const PixelLevels levels = make_pixel_levels(rules);
  const int32_t merge = layout.merge_size;
  ImagePatches patches;
  patches.grid_height = pixels.height / layout.patch_size / merge * merge;
  patches.grid_width = pixels.width / layout.patch_size / merge * merge;
  patches.patch_dim = 3 * layout.patch_size * layout.patch_size;
  patches.data.resize(static_cast<size_t>(patches.grid_height) *
                      static_cast<size_t>(patches.grid_width) *
                      static_cast<size_t>(patches.patch_dim));
  write_patches(pixels, levels, layout, patches);
  hash_pixels(pixels, levels, layout, patches.content_hash);
  return patches;
}

}  // namespace hs
