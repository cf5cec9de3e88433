// API keys in a file of their own: who may use the server, and how much. A key itself is shown
// once, when it is made; the file holds its SHA-256. Keys are 256 random bits, so a plain hash is
// enough: there is nothing to guess.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

using KeyHash = std::array<uint8_t, 32>;
KeyHash hash_key(std::string_view key);

struct ApiKey {
  int64_t id = 0;
  std::string name;
  std::string last4;  // of the key, for people who hold several
  bool admin = false;
  int64_t concurrency_max = 0;  // requests under way at a time; 0 = no limit
  int64_t per_minute_max = 0;   // requests a minute; 0 = no limit
  int64_t created_ms = 0;       // since 1970
  int64_t revoked_ms = -1;      // -1: it is good
  KeyHash hash{};

  bool is_good() const { return revoked_ms < 0; }
};

struct NewKey {
  std::string key;  // "hs-..." and 43 letters and digits
  ApiKey stored;
};

// What the file's inode says; another value means that it may hold other keys. Any thread.
struct KeyFileStamp {
  int64_t mtime_ns = 0;
  int64_t bytes = -1;  // -1: no file
  uint64_t inode = 0;
  bool operator==(const KeyFileStamp&) const = default;
};
KeyFileStamp stamp_of_keys(const std::string& path);

// Codes of errors that are the caller's to mend, not the file's.
inline constexpr std::string_view kBadKeyName = "invalid_key_name";  // no key may be called so
inline constexpr std::string_view kKeyExists = "key_exists";         // a good key is

// Each call opens the file, works and closes it: several processes may do so. Any thread.
// Errors as Database's, with the path; kInvalidArgument: the two above, or the file is another
// program's. A file of an older version is brought to this one by the first change.
// No file: no keys.
Result<std::vector<ApiKey>> read_keys(const std::string& path);
// Creates the file if need be, readable by its owner and group only. Limits and the name are
// `wanted`'s; the name of a revoked key may be given again.
Result<NewKey> create_key(const std::string& path, const ApiKey& wanted, int64_t now_ms);
// `which`: an id, or a name, which means the good key of that name. kNotFound; a key that is
// revoked already stays as it is.
Result<ApiKey> revoke_key(const std::string& path, std::string_view which, int64_t now_ms);

}  // namespace hs
