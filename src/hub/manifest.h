// What a stored model is: where it came from, and each of its files with size and hash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

struct StoredFile {
  std::string path;  // a plain name in the model's folder
  int64_t bytes = 0;
  std::string sha256;  // hexadecimal
};

struct ModelManifest {
  std::string repo;      // "org/name"
  std::string source;    // the address or folder that it came from
  std::string revision;  // as it was asked for: "main"
  std::string commit;    // 40 hexadecimal digits, or "local-" and 12 of its files' hash
  std::string architecture;
  int64_t installed_ms = 0;  // unix time
  std::vector<StoredFile> files;

  int64_t bytes() const;
};

inline constexpr const char* kManifestName = "manifest.json";

std::string manifest_json(const ModelManifest& manifest);
// kDataLoss: not a manifest, with the reason. Names in it are safe as names of files and folders.
Result<ModelManifest> parse_manifest(std::string_view json, std::string_view name);

}  // namespace hs
