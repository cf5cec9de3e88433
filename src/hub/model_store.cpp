#include "hub/model_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <tuple>

#include "base/log.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kManifestBytesMax = 4 << 20;
constexpr const char* kPartialFolder = ".partial";
constexpr const char* kLockSuffix = ".lock";
constexpr std::string_view kBetween = "--";

std::unexpected<Error> io_error(const char* what, const fs::path& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return fail(full ? ErrorKind::kResourceExhausted : ErrorKind::kIo,
              fmt::format("cannot {} {}: {}", what, path.string(), strerror(number)),
              full ? "no_space" : "");
}

std::unexpected<Error> io_error(const char* what, const fs::path& path,
                                const std::error_code& error) {
  return io_error(what, path, error.value());
}

// `busy` where another has a lock that does not go with this one.
Result<FileLock> lock_or(const fs::path& path, int flags, int operation, Error busy) {
  const int file = open(path.c_str(), flags | O_CLOEXEC, 0640);
  if (file < 0) return io_error("open", path, errno);
  FileLock lock(file);
  if (flock(file, operation | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return std::unexpected(std::move(busy));
  return io_error("lock", path, errno);
}

int64_t folder_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  return bytes;
}

Status write_synced(const fs::path& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (file < 0) return io_error("write", path, errno);
  int wrong = 0;
  while (!text.empty() && wrong == 0) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<size_t>(n));
    else if (errno != EINTR)
      wrong = errno;
  }
  if (wrong == 0 && fsync(file) != 0) wrong = errno;
  close(file);
  if (wrong != 0) return io_error("write", path, wrong);
  return {};
}

// Folders of a folder whose names do not begin with a dot.
std::vector<fs::path> folders_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error) && !entry.path().filename().string().starts_with('.'))
      found.push_back(entry.path());
  return found;
}

Result<StoredModel> read_model(const fs::path& folder) {
  const fs::path file = folder / kManifestName;
  const auto text = read_file(file, kManifestBytesMax);
  if (!text) return std::unexpected(text.error());
  auto manifest = parse_manifest(*text, file.string());
  if (!manifest) return std::unexpected(manifest.error());
  const fs::path name = folder.parent_path().filename();
  const fs::path org = folder.parent_path().parent_path().filename();
  if (manifest->repo != org.string() + '/' + name.string() ||
      manifest->commit != folder.filename().string())
    return fail(ErrorKind::kDataLoss, fmt::format("{}: it is of {}@{}, not of this folder",
                                                  file.string(), manifest->repo, manifest->commit));
  return StoredModel{*std::move(manifest), folder};
}

Error in_use(const StoredModel& model) {
  return {ErrorKind::kUnavailable,
          fmt::format("{} is loaded; unload it first.", model.manifest.repo), "model_in_use",
          "model"};
}

}  // namespace

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

Result<std::string> read_file(const fs::path& path, size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error("read", path, errno);
  std::string text(bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return io_error("read", path, EIO);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > bytes_max)
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} has more than {} bytes", path.string(), bytes_max));
  return text;
}

Result<std::vector<StoredModel>> ModelStore::list() const {
  std::vector<StoredModel> models;
  std::error_code error;
  if (!fs::exists(root_, error)) return models;
  for (const fs::path& org : folders_of(root_))
    for (const fs::path& name : folders_of(org))
      for (const fs::path& folder : folders_of(name)) {
        auto model = read_model(folder);
        if (model)
          models.push_back(*std::move(model));
        else
          log_warning("model store: {}", model.error().message);
      }
  std::ranges::sort(models, [](const StoredModel& a, const StoredModel& b) {
    return std::tuple(a.manifest.repo, -a.manifest.installed_ms, a.manifest.commit) <
           std::tuple(b.manifest.repo, -b.manifest.installed_ms, b.manifest.commit);
  });
  return models;
}

Result<StoredModel> ModelStore::find(std::string_view name) const {
  auto models = list();
  if (!models) return std::unexpected(models.error());
  const std::string_view repo = name.substr(0, name.find('@'));
  const std::string_view revision = repo.size() == name.size() ? "" : name.substr(repo.size() + 1);
  const bool with_org = repo.find('/') != repo.npos;
  const StoredModel* found = nullptr;
  for (const StoredModel& model : *models) {
    const std::string& full = model.manifest.repo;
    if (with_org ? full != repo : full.substr(full.find('/') + 1) != repo) continue;
    constexpr size_t kCommitDigitsMin = 4;
    const bool is_revision =
        revision.empty() || model.manifest.revision == revision ||
        (revision.size() >= kCommitDigitsMin && model.manifest.commit.starts_with(revision));
    if (!is_revision) continue;
    if (found != nullptr && found->manifest.repo != full)
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("'{}' may be {} or {}: name the organisation, too.", name,
                              found->manifest.repo, full),
                  "ambiguous_model", "model");
    if (found == nullptr) found = &model;
  }
  if (found == nullptr)
    return fail(ErrorKind::kNotFound,
                fmt::format("There is no model '{}' in {}.", name, root_.string()),
                "model_not_stored", "model");
  return *found;
}

Result<FileLock> ModelStore::hold(const StoredModel& model) const {
  return lock_or(model.path / kManifestName, O_RDONLY, LOCK_SH,
                 {ErrorKind::kUnavailable, fmt::format("{} is being removed.", model.manifest.repo),
                  "model_busy", "model"});
}

Status ModelStore::remove(const StoredModel& model) const {
  const auto lock = lock_or(model.path / kManifestName, O_RDONLY, LOCK_EX, in_use(model));
  if (!lock) return std::unexpected(lock.error());
  std::error_code error;
  const fs::path partial = root_ / kPartialFolder;
  fs::create_directories(partial, error);
  const fs::path doomed =
      partial / fmt::format("removed{}{}{}{}", kBetween,
                            model.manifest.repo.substr(model.manifest.repo.find('/') + 1), kBetween,
                            model.manifest.commit);
  fs::remove_all(doomed, error);
  fs::rename(model.path, doomed, error);
  if (error) return io_error("remove", model.path, error);
  fs::remove_all(doomed, error);
  if (error) return io_error("remove", doomed, error);
  // Of the name and organisation only if nothing else is left there.
  rmdir(model.path.parent_path().c_str());
  rmdir(model.path.parent_path().parent_path().c_str());
  return {};
}

Result<std::vector<PartialModel>> ModelStore::partials() const {
  std::vector<PartialModel> found;
  for (const fs::path& folder : folders_of(root_ / kPartialFolder)) {
    const std::string name = folder.filename().string();
    const size_t first = name.find(kBetween);
    const size_t last = name.rfind(kBetween);
    if (first == name.npos || first == last) continue;
    PartialModel partial;
    partial.repo = name.substr(0, first) + '/' +
                   name.substr(first + kBetween.size(), last - first - kBetween.size());
    partial.commit = name.substr(last + kBetween.size());
    partial.bytes = folder_bytes(folder);
    partial.path = folder;
    found.push_back(std::move(partial));
  }
  std::ranges::sort(found, {}, &PartialModel::path);
  return found;
}

Result<int> ModelStore::remove_partials(std::string_view repo) const {
  const auto found = partials();
  if (!found) return std::unexpected(found.error());
  int n_removed = 0;
  for (const PartialModel& partial : *found) {
    if (!repo.empty() && partial.repo != repo) continue;
    const fs::path lock_path = partial.path.string() + kLockSuffix;
    const auto lock = lock_or(lock_path, O_RDWR | O_CREAT, LOCK_EX, {});
    if (!lock) continue;  // being pulled
    std::error_code error;
    fs::remove_all(partial.path, error);
    if (error) return io_error("remove", partial.path, error);
    fs::remove(lock_path, error);
    ++n_removed;
  }
  return n_removed;
}

fs::path ModelStore::partial_path(const ModelRef& ref, const std::string& commit) const {
  return root_ / kPartialFolder /
         fmt::format("{}{}{}{}{}", ref.org, kBetween, ref.name, kBetween, commit);
}

Result<ModelStore::Staging> ModelStore::stage(const ModelRef& ref,
                                              const std::string& commit) const {
  Staging staging{partial_path(ref, commit), {}};
  std::error_code error;
  fs::create_directories(staging.path, error);
  if (error) return io_error("make", staging.path, error);
  auto lock =
      lock_or(staging.path.string() + kLockSuffix, O_RDWR | O_CREAT, LOCK_EX,
              {ErrorKind::kUnavailable, fmt::format("{} is being fetched already.", ref.repo()),
               "model_busy", "model"});
  if (!lock) return std::unexpected(lock.error());
  staging.lock = *std::move(lock);
  return staging;
}

Result<StoredModel> ModelStore::install(Staging staging, ModelManifest manifest) const {
  if (const Status written = write_synced(staging.path / kManifestName, manifest_json(manifest));
      !written)
    return std::unexpected(written.error());
  const fs::path place = root_ / manifest.repo / manifest.commit;
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  if (error) return io_error("make", place.parent_path(), error);
  fs::rename(staging.path, place, error);
  if (error) return io_error("make", place, error);
  fs::remove(staging.path.string() + kLockSuffix, error);
  return StoredModel{std::move(manifest), place};
}

void ModelStore::discard(const Staging& staging) {
  std::error_code error;
  fs::remove_all(staging.path, error);
  fs::remove(staging.path.string() + kLockSuffix, error);
}

Result<DiskSpace> ModelStore::space() const {
  std::error_code error;
  fs::path there = fs::absolute(root_, error);
  while (!fs::exists(there, error) && there != there.root_path()) there = there.parent_path();
  struct statvfs disk{};
  if (statvfs(there.c_str(), &disk) != 0) return io_error("look at", there, errno);
  constexpr uint64_t kReserveShare = 20;
  return DiskSpace{static_cast<int64_t>(disk.f_bavail * disk.f_frsize),
                   static_cast<int64_t>(disk.f_blocks * disk.f_frsize / kReserveShare)};
}

}  // namespace hs
