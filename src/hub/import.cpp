#include "hub/import.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "hub/digest.h"
#include "model/architecture.h"
#include "model/safetensors.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigJsonBytesMax = 4 << 20;
constexpr std::string_view kCachePrefix = "models--";

// Where the files are, and what they are called.
struct Source {
  fs::path folder;
  ModelRef ref;
  std::string commit;  // "" = not from the cache
};

std::unexpected<Error> not_found(std::string message) {
  return fail(ErrorKind::kNotFound, std::move(message), "not_found");
}

// "models--org--name" -> org/name.
std::optional<ModelRef> cache_ref(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with(kCachePrefix)) return {};
  name = name.substr(kCachePrefix.size());
  const size_t between = name.find("--");
  if (between == name.npos) return {};
  const auto ref = parse_model_ref(name.substr(0, between) + '/' + name.substr(between + 2));
  if (!ref) return {};
  return *ref;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

bool is_commit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// The snapshot that "main" means, or the only one.
Result<Source> cached_model(const fs::path& folder, const ModelRef& ref) {
  std::error_code error;
  std::string commit;
  if (const auto text = read_file(folder / "refs" / "main", 4096)) commit = trimmed(*text);
  if (commit.empty()) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder / "snapshots", error))
      found.push_back(entry.path().filename().string());
    if (found.size() == 1) commit = found.front();
    if (found.size() > 1)
      return not_found(
          fmt::format("{} has {} snapshots and no main: name one of the folders below "
                      "snapshots/",
                      folder.string(), found.size()));
  }
  const fs::path snapshot = folder / "snapshots" / commit;
  if (!is_commit(commit) || !fs::is_directory(snapshot, error))
    return not_found(fmt::format("{} has no snapshot", folder.string()));
  return Source{snapshot, ref, commit};
}

Result<Source> named_in_cache(const fs::path& cache, const std::string& name) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    const auto ref = cache_ref(entry.path());
    if (ref && (name.empty() || ref->repo() == name)) found.push_back(entry.path());
  }
  if (found.empty())
    return not_found(fmt::format("{} has no config.json and no cached model{}", cache.string(),
                                 name.empty() ? "" : " of that name"));
  if (found.size() > 1)
    return not_found(fmt::format("{} holds {} models: say which with --name ORG/NAME",
                                 cache.string(), found.size()));
  return cached_model(found.front(), *cache_ref(found.front()));
}

// A snapshot's own folder: models--org--name/snapshots/COMMIT.
std::optional<Source> as_snapshot(const fs::path& folder) {
  const std::string commit = folder.filename().string();
  const fs::path snapshots = folder.parent_path();
  const auto ref = cache_ref(snapshots.parent_path());
  if (!is_commit(commit) || snapshots.filename() != "snapshots" || !ref) return {};
  return Source{folder, *ref, commit};
}

Result<Source> find_source(const fs::path& from, const ImportOptions& options) {
  std::error_code error;
  fs::path folder = fs::absolute(from, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (!fs::is_directory(folder, error))
    return not_found(fmt::format("{} is not a directory", from.string()));
  if (!fs::exists(folder / "config.json", error)) {
    if (const auto ref = cache_ref(folder)) return cached_model(folder, *ref);
    const fs::path hub = folder / "hub";
    return named_in_cache(fs::is_directory(hub, error) ? hub : folder, options.name);
  }
  if (auto snapshot = as_snapshot(folder)) return *std::move(snapshot);
  Source source{folder, {}, ""};
  const auto ref =
      parse_model_ref(options.name.empty() ? "local/" + folder.filename().string() : options.name);
  if (!ref)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("'{}' does not do as a name: give one with --name ORG/NAME",
                            folder.filename().string()),
                "invalid_model_name");
  source.ref = *ref;
  return source;
}

// The hash by which the cache knows a file: the name of the blob that its link leads to.
void add_known_hash(const fs::path& file, RemoteFile& remote) {
  std::error_code error;
  if (!fs::is_symlink(file, error)) return;
  const std::string blob = fs::read_symlink(file, error).filename().string();
  if (blob.find_first_not_of("0123456789abcdef") != blob.npos) return;
  if (blob.size() == 64) remote.sha256 = blob;
  if (blob.size() == 40) remote.git_sha1 = blob;
}

Result<std::vector<RemoteFile>> files_of(const Source& source) {
  std::vector<RemoteFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(source.folder, error)) {
    if (!fs::is_regular_file(entry.path(), error)) continue;  // follows links
    RemoteFile file;
    file.path = entry.path().filename().string();
    file.bytes = static_cast<int64_t>(fs::file_size(entry.path(), error));
    if (!source.commit.empty()) add_known_hash(entry.path(), file);
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &RemoteFile::path);
  auto chosen = runnable_files(files);
  if (!chosen)
    return fail(chosen.error().kind,
                fmt::format("{}: {}", source.folder.string(), chosen.error().message),
                chosen.error().code);
  return chosen;
}

Status place_error(const fs::path& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return fail(full ? ErrorKind::kResourceExhausted : ErrorKind::kIo,
              fmt::format("cannot write {}: {}", path.string(), strerror(number)),
              full ? "no_space" : "");
}

bool reflink(const fs::path& from, const fs::path& to) {
  const int source = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return false;
  const int target = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  const bool shared = target >= 0 && ioctl(target, FICLONE, source) == 0;
  if (target >= 0) close(target);
  close(source);
  return shared;
}

Status place(const fs::path& from, const fs::path& to, bool copy) {
  std::error_code error;
  const fs::path real = fs::canonical(from, error);
  if (error) return place_error(from, error.value());
  fs::remove(to, error);
  if (reflink(real, to)) return {};
  fs::remove(to, error);
  if (!copy && link(real.c_str(), to.c_str()) == 0) return {};
  fs::copy_file(real, to, fs::copy_options::overwrite_existing, error);
  if (error) return place_error(to, error.value());
  return {};
}

// Hashes the file as it lies in the store.
Result<std::string> check_file(const fs::path& path, const RemoteFile& file,
                               const std::function<bool(int64_t)>& more) {
  Digest sha256 = Digest::sha256();
  Digest git = Digest::git_blob(file.bytes);
  int64_t bytes = 0;
  const Status read = hash_file(path, [&](std::string_view piece) {
    sha256.update(piece);
    git.update(piece);
    bytes += static_cast<int64_t>(piece.size());
    return more(bytes);
  });
  if (!read) return std::unexpected(read.error());
  std::string hash = sha256.finish();
  const bool good = (file.sha256.empty() || file.sha256 == hash) &&
                    (file.git_sha1.empty() || file.git_sha1 == git.finish());
  if (!good)
    return fail(
        ErrorKind::kDataLoss,
        fmt::format("{}: the bytes do not have the hash that the cache names it by", file.path),
        "checksum");
  if (file.path.ends_with(".safetensors"))
    if (const auto opened = SafetensorsFile::open(path); !opened)
      return std::unexpected(opened.error());
  return hash;
}

std::string local_commit(const std::vector<StoredFile>& files) {
  Digest digest = Digest::sha256();
  for (const StoredFile& file : files) digest.update(file.path + ' ' + file.sha256 + '\n');
  return "local-" + digest.finish().substr(0, 12);
}

}  // namespace

Result<StoredModel> import_model(const ModelStore& store, const fs::path& from,
                                 const ImportOptions& options, const Clock& clock) {
  const auto source = find_source(from, options);
  if (!source) return std::unexpected(source.error());
  const auto files = files_of(*source);
  if (!files) return std::unexpected(files.error());
  const auto config = read_file(source->folder / "config.json", kConfigJsonBytesMax);
  if (!config) return std::unexpected(config.error());
  auto architecture = supported_architecture(*config, "config.json");
  if (!architecture) return std::unexpected(architecture.error());

  // Not where pulls of the same commit work: they write into what they find.
  auto staging = store.stage(source->ref, "import");
  if (!staging) return std::unexpected(staging.error());
  ModelManifest manifest;
  manifest.repo = source->ref.repo();
  manifest.source = source->folder.string();
  manifest.revision = source->commit.empty() ? "local" : "main";
  manifest.architecture = *std::move(architecture);
  manifest.installed_ms = clock.unix_ms();
  PullProgress progress;
  for (const RemoteFile& file : *files) progress.bytes_total += file.bytes;
  int64_t done = 0;
  for (const RemoteFile& file : *files) {
    const fs::path to = staging->path / file.path;
    if (Status placed = place(source->folder / file.path, to, options.copy); !placed)
      return std::unexpected(placed.error());
    auto hash = check_file(to, file, [&](int64_t bytes) {
      progress.file = file.path;
      progress.bytes_done = done + bytes;
      if (options.progress) options.progress(progress);
      return !options.cancelled || !options.cancelled();
    });
    if (!hash) {
      ModelStore::discard(*staging);
      return std::unexpected(hash.error());
    }
    done += file.bytes;
    manifest.files.push_back({file.path, file.bytes, *std::move(hash)});
  }
  manifest.commit = source->commit.empty() ? local_commit(manifest.files) : source->commit;
  // The same again: what is there stays.
  if (auto there = store.find(manifest.repo + '@' + manifest.commit)) {
    ModelStore::discard(*staging);
    return there;
  }
  return store.install(*std::move(staging), std::move(manifest));
}

}  // namespace hs
