#include "media/pixel_levels.h"

#include <openssl/evp.h>

#include <cstring>

#include "base/check.h"

namespace hs {

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

ImagePatches patch_grid(const Image& pixels, int32_t patch_size) {
  ImagePatches patches;
  patches.grid_height = pixels.height / patch_size;
  patches.grid_width = pixels.width / patch_size;
  patches.patch_dim = 3 * patch_size * patch_size;
  patches.data.resize(static_cast<size_t>(patches.grid_height) *
                      static_cast<size_t>(patches.grid_width) *
                      static_cast<size_t>(patches.patch_dim));
  return patches;
}

float* write_patch(const uint8_t* corner, size_t row_bytes, size_t side, const PixelLevels& levels,
                   float* out) {
  for (size_t c = 0; c < 3; ++c)
    for (size_t y = 0; y < side; ++y)
      for (size_t x = 0; x < side; ++x) *out++ = levels[c][corner[y * row_bytes + x * 3 + c]];
  return out;
}

void hash_pixels(std::span<const std::byte> header, const PixelLevels& levels, const Image& pixels,
                 uint64_t hash[2]) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  HS_CHECK(context != nullptr);
  const bool done = EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1 &&
                    EVP_DigestUpdate(context, header.data(), header.size()) == 1 &&
                    EVP_DigestUpdate(context, levels.data(), sizeof levels) == 1 &&
                    EVP_DigestUpdate(context, pixels.rgb.data(), pixels.rgb.size()) == 1 &&
                    EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1;
  EVP_MD_CTX_free(context);
  HS_CHECK(done);
  std::memcpy(hash, digest.data(), 2 * sizeof *hash);
}

}  // namespace hs
