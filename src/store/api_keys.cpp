#include "store/api_keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "store/database.h"

namespace hs {
namespace {

// "HSky", as the request log's mark.
constexpr int64_t kApplicationId = 0x48536B79;
constexpr int64_t kSchemaVersion = 2;
constexpr int kBusyTimeoutMs = 5000;
constexpr size_t kNameBytesMax = 64;
constexpr mode_t kFileMode = 0640;

// A name is one good key's; revoked keys keep theirs.
constexpr const char* kSchema = R"sql(
  CREATE TABLE keys (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    name                TEXT NOT NULL,
    hash                TEXT NOT NULL UNIQUE,
    last4               TEXT NOT NULL,
    admin               INTEGER NOT NULL,
    concurrency_max     INTEGER NOT NULL,
    per_minute_max      INTEGER NOT NULL,
    created_ms          INTEGER NOT NULL,
    revoked_ms          INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX good_names ON keys (name) WHERE revoked_ms IS NULL;
)sql";

// In version 1 a revoked key's name was taken for ever. The order of columns is the same.
constexpr const char* kSetAside = "ALTER TABLE keys RENAME TO keys_1";
constexpr const char* kTakeOver = R"sql(
  INSERT INTO keys SELECT * FROM keys_1;
  DROP TABLE keys_1;
)sql";

Error named(const std::string& path, Error error) {
  error.message = fmt::format("API keys at {}: {}", path, error.message);
  return error;
}

std::string hex_of(const KeyHash& hash) {
  std::string out;
  for (const uint8_t byte : hash) fmt::format_to(std::back_inserter(out), "{:02x}", byte);
  return out;
}

std::optional<KeyHash> hash_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  KeyHash hash{};
  if (hex.size() != 2 * hash.size()) return {};
  for (size_t i = 0; i < hex.size(); ++i) {
    const size_t digit = kDigits.find(hex[i]);
    if (digit == kDigits.npos) return {};
    hash[i / 2] = static_cast<uint8_t>((hash[i / 2] << 4) | digit);
  }
  return hash;
}

// 43 letters and digits, - and _ without anything a shell or URL would mind: 256 bits and a few
// that are thrown away.
Result<std::string> random_key() {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<unsigned char, 43> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return fail(ErrorKind::kIo, "the system gives no random numbers");
  std::string key = "hs-";
  for (const unsigned char byte : bytes) key += kLetters[byte & 63];
  return key;
}

// Changes from other connections may come between two statements; a transaction holds them off.
Status prepare_schema(Database& db) {
  const Result<int64_t> id = db.query_integer("PRAGMA application_id");
  if (!id) return std::unexpected(id.error());
  const Result<int64_t> version = db.query_integer("PRAGMA user_version");
  if (!version) return std::unexpected(version.error());
  if (*id == kApplicationId && *version == kSchemaVersion) return {};
  if (*id == kApplicationId && *version > kSchemaVersion)
    return fail(ErrorKind::kUnsupported, "a newer HeteroServe wrote the file");
  const Result<int64_t> n_objects = db.query_integer("SELECT count(*) FROM sqlite_master");
  if (!n_objects) return std::unexpected(n_objects.error());
  const bool is_old = *id == kApplicationId;
  if (!is_old && (*id != 0 || *n_objects != 0))
    return fail(ErrorKind::kInvalidArgument, "the file is another program's");
  if (is_old)
    if (const Status aside = db.run(kSetAside); !aside) return aside;
  if (const Status made = db.run(kSchema); !made) return made;
  if (is_old)
    if (const Status taken = db.run(kTakeOver); !taken) return taken;
  return db.run(fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}", kSchemaVersion,
                            kApplicationId));
}

Result<std::vector<ApiKey>> select_keys(Database& db) {
  Result<Statement> query = db.prepare(
      "SELECT id, name, hash, last4, admin, concurrency_max, per_minute_max, created_ms, "
      "revoked_ms FROM keys ORDER BY id");
  if (!query) return std::unexpected(query.error());
  std::vector<ApiKey> keys;
  while (true) {
    const Result<bool> more = query->step();
    if (!more) return std::unexpected(more.error());
    if (!*more) return keys;
    const auto hash = hash_of_hex(query->text(2));
    if (!hash) return fail(ErrorKind::kDataLoss, "a key's hash is damaged");
    keys.push_back({query->integer(0), std::string(query->text(1)), std::string(query->text(3)),
                    query->integer(4) != 0, query->integer(5), query->integer(6), query->integer(7),
                    query->is_null(8) ? -1 : query->integer(8), *hash});
  }
}

Result<std::vector<ApiKey>> read_with(const std::string& path, Database::Mode mode) {
  Result<Database> db = Database::open(path, mode, kBusyTimeoutMs);
  if (!db) return std::unexpected(db.error());
  const Result<int64_t> id = db->query_integer("PRAGMA application_id");
  if (!id) return std::unexpected(id.error());
  const Result<int64_t> n_objects = db->query_integer("SELECT count(*) FROM sqlite_master");
  if (!n_objects) return std::unexpected(n_objects.error());
  if (*id == 0 && *n_objects == 0) return std::vector<ApiKey>{};  // just made
  if (*id != kApplicationId)
    return fail(ErrorKind::kInvalidArgument, "the file is another program's");
  return select_keys(*db);
}

Status insert_key(Database& db, const ApiKey& key) {
  Result<Statement> insert = db.prepare(
      "INSERT INTO keys (name, hash, last4, admin, concurrency_max, per_minute_max, created_ms) "
      "VALUES (?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  const auto bound = [&]() -> Status {
    if (const Status s = insert->bind(1, key.name); !s) return s;
    if (const Status s = insert->bind(2, hex_of(key.hash)); !s) return s;
    if (const Status s = insert->bind(3, key.last4); !s) return s;
    if (const Status s = insert->bind(4, int64_t{key.admin}); !s) return s;
    if (const Status s = insert->bind(5, key.concurrency_max); !s) return s;
    if (const Status s = insert->bind(6, key.per_minute_max); !s) return s;
    return insert->bind(7, key.created_ms);
  }();
  if (!bound) return bound;
  const Result<bool> stepped = insert->step();
  if (!stepped) return std::unexpected(stepped.error());
  return {};
}

Status check_name(std::string_view name) {
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; };
  const bool number = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  if (name.empty() || name.size() > kNameBytesMax || number || !std::ranges::all_of(name, is_plain))
    return fail(
        ErrorKind::kInvalidArgument,
        fmt::format("a key's name has 1 to {} bytes, no spaces, and is no number", kNameBytesMax),
        std::string(kBadKeyName));
  return {};
}

// The file with its folder, readable by others only as far as its group.
Status make_file(const std::string& path) {
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, kFileMode);
  if (file < 0)
    return fail(ErrorKind::kIo, std::error_code(errno, std::generic_category()).message());
  ::close(file);
  return {};
}

// By a name, the good key before revoked ones, and of those the last.
Result<ApiKey> find_key(const std::vector<ApiKey>& keys, std::string_view which) {
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys) {
    if (key.name != which && std::to_string(key.id) != which) continue;
    if (found == nullptr || !found->is_good()) found = &key;
  }
  if (found != nullptr) return *found;
  return fail(ErrorKind::kNotFound, fmt::format("there is no key '{}'", which));
}

// In one transaction, on a file that is made if need be.
template <typename Work>
auto change_keys(const std::string& path, const Work& work)
    -> decltype(work(std::declval<Database&>())) {
  const auto changed = [&]() -> decltype(work(std::declval<Database&>())) {
    if (const Status made = make_file(path); !made) return std::unexpected(made.error());
    Result<Database> db = Database::open(path, Database::Mode::kReadWrite, kBusyTimeoutMs);
    if (!db) return std::unexpected(db.error());
    Result<Transaction> transaction = Transaction::begin(*db);
    if (!transaction) return std::unexpected(transaction.error());
    if (const Status ours = prepare_schema(*db); !ours) return std::unexpected(ours.error());
    auto done = work(*db);
    if (!done) return done;
    if (const Status committed = transaction->commit(); !committed)
      return std::unexpected(committed.error());
    return done;
  }();
  if (!changed) return std::unexpected(named(path, changed.error()));
  return changed;
}

}  // namespace

KeyHash hash_key(std::string_view key) {
  KeyHash hash{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  return hash;
}

KeyFileStamp stamp_of_keys(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
          int64_t{info.st_size}, uint64_t{info.st_ino}};
}

Result<std::vector<ApiKey>> read_keys(const std::string& path) {
  auto keys = read_with(path, Database::Mode::kReadOnly);
  // A change that was cut off by a crash is undone by whoever may write the file.
  if (!keys && keys.error().kind == ErrorKind::kIo)
    keys = read_with(path, Database::Mode::kReadWrite);
  if (!keys && keys.error().kind == ErrorKind::kNotFound) return std::vector<ApiKey>{};
  if (!keys) return std::unexpected(named(path, keys.error()));
  return keys;
}

Result<NewKey> create_key(const std::string& path, const ApiKey& wanted, int64_t now_ms) {
  if (const Status name = check_name(wanted.name); !name) return std::unexpected(name.error());
  const auto key = random_key();
  if (!key) return std::unexpected(key.error());
  ApiKey stored = wanted;
  stored.hash = hash_key(*key);
  stored.last4 = key->substr(key->size() - 4);
  stored.created_ms = now_ms;
  stored.revoked_ms = -1;
  return change_keys(path, [&](Database& db) -> Result<NewKey> {
    const auto keys = select_keys(db);
    if (!keys) return std::unexpected(keys.error());
    const auto same = find_key(*keys, stored.name);
    if (same && same->is_good())
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("there is a key '{}' already; revoke it first", stored.name),
                  std::string(kKeyExists));
    if (const Status inserted = insert_key(db, stored); !inserted)
      return std::unexpected(inserted.error());
    const auto id = db.query_integer("SELECT last_insert_rowid()");
    if (!id) return std::unexpected(id.error());
    stored.id = *id;
    return NewKey{*key, stored};
  });
}

Result<ApiKey> revoke_key(const std::string& path, std::string_view which, int64_t now_ms) {
  if (stamp_of_keys(path).bytes < 0)
    return std::unexpected(
        named(path, {ErrorKind::kNotFound, fmt::format("there is no key '{}'", which), "", ""}));
  return change_keys(path, [&](Database& db) -> Result<ApiKey> {
    const auto keys = select_keys(db);
    if (!keys) return std::unexpected(keys.error());
    auto key = find_key(*keys, which);
    if (!key || !key->is_good()) return key;
    key->revoked_ms = now_ms;
    const Status done =
        db.run(fmt::format("UPDATE keys SET revoked_ms = {} WHERE id = {}", now_ms, key->id));
    if (!done) return std::unexpected(done.error());
    return key;
  });
}

}  // namespace hs
