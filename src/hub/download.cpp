#include "hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "fetch/fetch.h"
#include "hub/digest.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

constexpr auto kWaitSlice = std::chrono::milliseconds(50);

std::unexpected<Error> write_error(const fs::path& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return fail(full ? ErrorKind::kResourceExhausted : ErrorKind::kIo,
              fmt::format("cannot write {}: {}{}", path.string(), strerror(number),
                          full ? "; what was fetched stays for the next try" : ""),
              full ? "no_space" : "");
}

// Both hashes of what is in the file so far: the repository names one, the manifest the other.
struct Hashes {
  explicit Hashes(int64_t bytes) : git(Digest::git_blob(bytes)) {}
  void update(std::string_view bytes) {
    sha256.update(bytes);
    git.update(bytes);
  }
  Digest sha256 = Digest::sha256();
  Digest git;
};

class PartFile {
 public:
  PartFile(fs::path path, int64_t bytes_max)
      : path_(std::move(path)), bytes_max_(bytes_max), hashes_(bytes_max) {}
  ~PartFile() {
    if (file_ >= 0) close(file_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int64_t bytes() const { return bytes_; }
  bool complete() const { return bytes_ == bytes_max_; }
  const fs::path& path() const { return path_; }

  // Reads what an earlier try left.
  Status open_file(const DownloadTask& task) {
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    if (file_ < 0) return write_error(path_, errno);
    struct stat info{};
    if (fstat(file_, &info) != 0) return write_error(path_, errno);
    if (info.st_size > bytes_max_) return restart();
    if (info.st_size == 0) return {};
    Status read = hash_file(path_, [&](std::string_view piece) {
      hashes_.update(piece);
      bytes_ += static_cast<int64_t>(piece.size());
      task.progress(bytes_, true);
      return !task.hooks.cancelled || !task.hooks.cancelled();
    });
    if (read && lseek(file_, bytes_, SEEK_SET) < 0) return write_error(path_, errno);
    return read;
  }

  Status restart() {
    if (ftruncate(file_, 0) != 0 || lseek(file_, 0, SEEK_SET) < 0) return write_error(path_, errno);
    bytes_ = 0;
    hashes_ = Hashes(bytes_max_);
    return {};
  }

  Status append(std::string_view bytes) {
    hashes_.update(bytes);
    while (!bytes.empty()) {
      const ssize_t n = write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return write_error(path_, errno);
      bytes.remove_prefix(static_cast<size_t>(n));
      bytes_ += n;
    }
    return {};
  }

  // The SHA-256 of a file whose hash is the repository's; the file is durable then.
  Result<std::string> finish(const RemoteFile& file) {
    std::string sha256 = hashes_.sha256.finish();
    const bool good =
        file.sha256.empty() ? hashes_.git.finish() == file.git_sha1 : sha256 == file.sha256;
    if (!good)
      return fail(
          ErrorKind::kDataLoss,
          fmt::format("{}: the bytes do not have the hash that the repository tells.", file.path),
          "checksum");
    if (fsync(file_) != 0) return write_error(path_, errno);
    return sha256;
  }

 private:
  fs::path path_;
  int64_t bytes_max_;
  Hashes hashes_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

bool is_cancelled(const PullHooks& hooks) {
  return hooks.cancelled && hooks.cancelled();
}

Status wait(const PullHooks& hooks, int64_t wait_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (is_cancelled(hooks)) break;
    std::this_thread::sleep_for(kWaitSlice);
  }
  if (is_cancelled(hooks))
    return fail(ErrorKind::kCancelled, "The download was cancelled.", "cancelled");
  return {};
}

// Where a 206 begins; a server that answers 200 sends everything again.
Status take_head(const FetchHead& head, PartFile& part) {
  if (head.status == 200) return part.restart();
  if (head.status != 206) return {};
  const std::string expected = fmt::format("bytes {}-", part.bytes());
  if (head.header("content-range").starts_with(expected)) return {};
  if (Status restarted = part.restart(); !restarted) return restarted;
  return fail(ErrorKind::kUnavailable, "The server sent another part than was asked for.",
              "server_error");
}

Status try_once(const DownloadTask& task, PartFile& part) {
  FetchRequest request;
  request.url = file_url(task.endpoint, task.model, task.file.path);
  request.bearer_token = task.endpoint.token;
  request.cancelled = task.hooks.cancelled;
  request.limits.bytes_max = task.file.bytes;
  if (part.bytes() > 0)
    request.headers.push_back({"Range", fmt::format("bytes={}-", part.bytes())});
  request.on_head = [&](const FetchHead& head) { return take_head(head, part); };
  request.on_bytes = [&](std::string_view bytes) -> Status {
    if (part.bytes() + static_cast<int64_t>(bytes.size()) > task.file.bytes)
      return fail(
          ErrorKind::kDataLoss,
          fmt::format("{}: the server sends more bytes than the repository tells.", task.file.path),
          "checksum");
    Status written = part.append(bytes);
    task.progress(part.bytes(), false);
    return written;
  };
  const auto answer = fetch(request);
  if (!answer) return std::unexpected(answer.error());
  const int status = answer->head.status;
  if (status == 416) return part.restart();
  if (status != 200 && status != 206)
    return std::unexpected(hub_error(status, answer->head.header("x-error-code"),
                                     fmt::format("{} of {}", task.file.path, task.model.ref.repo()),
                                     !task.endpoint.token.empty()));
  if (!part.complete())
    return fail(
        ErrorKind::kUnavailable,
        fmt::format("{}: the server sent fewer bytes than the repository tells.", task.file.path),
        "cut");
  return {};
}

// Tries until all bytes are there. Each byte that came is a reason to go on.
Status fetch_all(const DownloadTask& task, PartFile& part) {
  int n_tries = 0;
  int64_t wait_ms = task.hooks.retry_wait_ms;
  while (!part.complete()) {
    const int64_t before = part.bytes();
    const Status tried = try_once(task, part);
    if (!tried) {
      const bool again = tried.error().kind == ErrorKind::kUnavailable;
      if (part.bytes() > before) {
        n_tries = 0;
        wait_ms = task.hooks.retry_wait_ms;
      }
      if (!again || ++n_tries >= task.hooks.tries_max) return tried;
      log_info("{}: {}; trying again at byte {}", task.file.path, tried.error().message,
               part.bytes());
    } else if (!part.complete() && ++n_tries >= task.hooks.tries_max) {
      return fail(ErrorKind::kUnavailable,
                  fmt::format("{}: the server refuses every part of it.", task.file.path),
                  "server_error");
    }
    if (part.complete()) break;
    if (Status waited = wait(task.hooks, wait_ms); !waited) return waited;
    wait_ms = std::min<int64_t>(wait_ms * 2, 30'000);
  }
  return {};
}

Result<std::string> fetch_and_check(const DownloadTask& task, PartFile& part) {
  if (Status fetched = fetch_all(task, part); !fetched) return std::unexpected(fetched.error());
  return part.finish(task.file);
}

}  // namespace

Result<std::string> download(const DownloadTask& task) {
  const fs::path done = task.folder / task.file.path;
  std::error_code error;
  // One that was finished before is checked like one that was not.
  if (fs::exists(done, error)) fs::rename(done, done.string() + ".part", error);
  std::optional<PartFile> part(std::in_place, done.string() + ".part", task.file.bytes);
  if (Status opened = part->open_file(task); !opened) return std::unexpected(opened.error());
  const bool resumed = part->bytes() > 0;
  auto hash = fetch_and_check(task, *part);
  const auto is_wrong = [&] { return !hash && hash.error().code == "checksum"; };
  if (is_wrong() && resumed) {
    log_warning("{}: what was there is damaged; fetching it again", task.file.path);
    if (Status restarted = part->restart(); !restarted) return std::unexpected(restarted.error());
    hash = fetch_and_check(task, *part);
  }
  if (is_wrong()) fs::remove(part->path(), error);
  if (!hash) return hash;
  fs::rename(part->path(), done, error);
  if (error) return write_error(done, error.value());
  return hash;
}

}  // namespace hs
