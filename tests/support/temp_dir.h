// A directory of its own for one test, removed with everything in it at the end.
#pragma once

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"

namespace hs::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "heteroserve-test-XXXXXX").string();
    HS_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }

  const std::filesystem::path& path() const { return path_; }
  // Writes a file of the directory and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream stream(path_ / name, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    HS_CHECK(stream.good());
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace hs::test
