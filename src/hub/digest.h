// Hashes by which files are known: SHA-256, and the SHA-1 that git names its blobs by.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hs {

// One thread at a time.
class Digest {
 public:
  static Digest sha256();
  // Of a file of so many bytes as git stores it.
  static Digest git_blob(int64_t bytes);
  Digest(Digest&& other) noexcept;
  Digest& operator=(Digest&& other) noexcept;
  ~Digest();

  void update(std::string_view bytes);
  // In hexadecimal, lower case. Last call.
  std::string finish();

 private:
  struct State;
  explicit Digest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Feeds a whole file to both; `more` hears of each piece and ends the reading with false
// (kCancelled). kIo.
Status hash_file(const std::filesystem::path& path,
                 const std::function<bool(std::string_view)>& more);

}  // namespace hs
