// The models on this machine: <root>/<org>/<name>/<commit>/ with real files and a manifest.json.
//
// A model's folder appears whole, by one rename, and disappears whole. What is not complete lies
// below <root>/.partial/. Any thread, several processes at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "hub/manifest.h"
#include "hub/model_ref.h"

namespace hs {

struct StoredModel {
  ModelManifest manifest;
  std::filesystem::path path;

  std::string id() const { return manifest.repo + '@' + manifest.commit; }
};

struct PartialModel {
  std::string repo;
  std::string commit;
  int64_t bytes = 0;
  std::filesystem::path path;
};

struct DiskSpace {
  int64_t free_bytes = 0;     // for this user
  int64_t reserve_bytes = 0;  // 5 % of the disk, which stay free
};

// An open file with a lock on it, until destroyed. Empty: nothing is held.
class FileLock {
 public:
  FileLock() = default;
  explicit FileLock(int file) : file_(file) {}
  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileLock();

 private:
  int file_ = -1;
};

class ModelStore {
 public:
  explicit ModelStore(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }

  // By name, of one name the newest first. Folders without a good manifest are left out, with a
  // warning in the log. No root: no models.
  Result<std::vector<StoredModel>> list() const;
  // "org/name" (the newest), "org/name@main" or "@" and the beginning of a commit; "name" alone if
  // only one org has it. kNotFound "model_not_stored", kInvalidArgument "ambiguous_model".
  Result<StoredModel> find(std::string_view name) const;

  // While it is held, nobody removes the model. Whoever serves it holds one.
  Result<FileLock> hold(const StoredModel& model) const;
  // kUnavailable "model_in_use" while somebody holds it.
  Status remove(const StoredModel& model) const;

  Result<std::vector<PartialModel>> partials() const;
  // Of one "org/name", or of all with ""; those being pulled right now stay. How many went.
  Result<int> remove_partials(std::string_view repo) const;
  // Makes the folder for what is not complete, and keeps others from working in it.
  // kUnavailable "model_busy".
  struct Staging {
    std::filesystem::path path;
    FileLock lock;
  };
  Result<Staging> stage(const ModelRef& ref, const std::string& commit) const;
  // Writes the manifest and moves the folder to its place.
  Result<StoredModel> install(Staging staging, ModelManifest manifest) const;
  // Nothing of it stays.
  static void discard(const Staging& staging);
  std::filesystem::path partial_path(const ModelRef& ref, const std::string& commit) const;

  // Of the disk that the root is on, or will be.
  Result<DiskSpace> space() const;

 private:
  std::filesystem::path root_;
};

// Whole, or kIo; at most bytes_max (kTooLarge).
Result<std::string> read_file(const std::filesystem::path& path, size_t bytes_max);

}  // namespace hs
