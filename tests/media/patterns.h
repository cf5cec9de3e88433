// What the media tests share: the formula pictures of make_image_cases.py, golden files, digests.
#pragma once

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "media/image.h"
#include "support/source_dir.h"

namespace hs::test {

inline const std::string kGolden = source_dir() + "/tests/golden/media/";

inline std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline nlohmann::json golden_cases() {
  std::ifstream in(kGolden + "cases.json");
  return nlohmann::json::parse(in);
}

inline std::string sha256(const void* bytes, size_t n) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(bytes, n, digest, &length, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < length; ++i)
    for (const int shift : {4, 0}) hex.push_back("0123456789abcdef"[(digest[i] >> shift) & 15]);
  return hex;
}

// "noise": hashed; "checker": a checkerboard over a gradient. Equal to `pattern` of
// make_image_cases.py.
inline Image pattern(const std::string& name, int32_t width, int32_t height) {
  Image image{width, height, {}};
  for (int32_t y = 0; y < height; ++y) {
    for (int32_t x = 0; x < width; ++x) {
      for (int32_t c = 0; c < 3; ++c) {
        if (name == "noise") {
          auto h = static_cast<uint32_t>((y * width + x) * 3 + c) * 2654435761U;
          h ^= h >> 15;
          h *= 2246822519U;
          h ^= h >> 13;
          image.rgb.push_back(static_cast<uint8_t>(h));
          continue;
        }
        const int32_t checker = (x / 7 + y / 5) % 2 * 255;
        const int32_t gradient =
            (x * 255 / std::max(width - 1, 1) + y * 255 / std::max(height - 1, 1)) / 2;
        image.rgb.push_back(static_cast<uint8_t>(c == 0   ? checker
                                                 : c == 1 ? gradient
                                                          : 255 - checker));
      }
    }
  }
  return image;
}

}  // namespace hs::test
