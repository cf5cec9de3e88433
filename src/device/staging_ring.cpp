#include "device/staging_ring.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "device/host_device.h"

namespace hs {
namespace {

constexpr size_t kPiecesMax = 2048;  // of one chunk

// Cuts runs into chunks. Two cursors over the same runs cut them alike, so that the downloading and
// the uploading side need not tell each other what stands where.
class ChunkCursor {
 public:
  ChunkCursor(std::span<const CopyRun> runs, size_t chunk_bytes)
      : runs_(runs), chunk_bytes_(chunk_bytes) {}

  // The pieces of the next chunk, from the runs' sources into it or from it to the runs' targets.
  // False when nothing is left.
  bool next_download(std::byte* chunk, std::vector<CopyRun>& pieces) {
    return next(pieces, [chunk](const CopyRun& run, size_t done, size_t used, size_t n) {
      return CopyRun{static_cast<const std::byte*>(run.from) + done, chunk + used, n};
    });
  }
  bool next_upload(std::byte* chunk, std::vector<CopyRun>& pieces) {
    return next(pieces, [chunk](const CopyRun& run, size_t done, size_t used, size_t n) {
      return CopyRun{chunk + used, static_cast<std::byte*>(run.to) + done, n};
    });
  }

 private:
  template <typename MakePiece>
  bool next(std::vector<CopyRun>& pieces, const MakePiece& make_piece) {
    pieces.clear();
    size_t used = 0;
    while (index_ < runs_.size() && used < chunk_bytes_ && pieces.size() < kPiecesMax) {
      const CopyRun& run = runs_[index_];
      const size_t n = std::min(run.bytes - done_, chunk_bytes_ - used);
      if (n > 0) pieces.push_back(make_piece(run, done_, used, n));
      used += n;
      done_ += n;
      if (done_ == run.bytes) {
        ++index_;
        done_ = 0;
      }
    }
    return !pieces.empty();
  }

  std::span<const CopyRun> runs_;
  size_t chunk_bytes_;
  size_t index_ = 0;
  size_t done_ = 0;  // bytes of run index_
};

size_t total_bytes(std::span<const CopyRun> runs) {
  size_t bytes = 0;
  for (const CopyRun& run : runs) bytes += run.bytes;
  return bytes;
}

}  // namespace

StagingRing::StagingRing(Device& from, Device& to, size_t chunk_bytes, int32_t n_chunks)
    : from_(from), to_(to), chunk_bytes_(chunk_bytes), n_chunks_(n_chunks) {
  HS_CHECK_GE(chunk_bytes, 64U);
  HS_CHECK_GE(n_chunks, 1);
  downloads_.reserve(kPiecesMax);
  uploads_.reserve(kPiecesMax);
}

Result<std::unique_ptr<StagingRing>> StagingRing::create(Device& from, Device& to,
                                                         size_t chunk_bytes, int32_t n_chunks) {
  std::unique_ptr<StagingRing> ring(new StagingRing(from, to, chunk_bytes, n_chunks));
  Device& owner = in_host_memory(from) ? to : from;
  Result<Buffer> chunks = owner.allocate_staging(chunk_bytes * static_cast<size_t>(n_chunks));
  if (!chunks) return std::unexpected(chunks.error());
  ring->chunks_ = std::move(*chunks);
  // Two copies of the host's memory share its bandwidth: there a second thread only costs.
  if (n_chunks == 1 || (in_host_memory(from) && in_host_memory(to))) return ring;
  try {
    ring->downloader_ = std::jthread(&StagingRing::downloader_main, ring.get());
  } catch (const std::system_error& error) {
    log_warning("copies from {} to {} do not overlap: {}", to_string(from.id()), to_string(to.id()),
                error.what());
  }
  return ring;
}

StagingRing::~StagingRing() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

Status StagingRing::copy(std::span<const CopyRun> runs) {
  // What fits into one chunk has nothing to overlap with.
  const bool overlaps = downloader_.joinable() && total_bytes(runs) > chunk_bytes_;
  return overlaps ? copy_overlapped(runs) : copy_chunk_by_chunk(runs);
}

Status StagingRing::copy_chunk_by_chunk(std::span<const CopyRun> runs) {
  ChunkCursor sources(runs, chunk_bytes_);
  ChunkCursor targets(runs, chunk_bytes_);
  while (sources.next_download(chunk(0), uploads_)) {
    if (Status status = from_.read(uploads_); !status) return status;
    targets.next_upload(chunk(0), uploads_);
    if (Status status = to_.write(uploads_); !status) return status;
  }
  return {};
}

Status StagingRing::copy_overlapped(std::span<const CopyRun> runs) {
  {
    const std::lock_guard lock(mutex_);
    job_ = runs;
    has_job_ = true;
    n_filled_ = 0;
    n_emptied_ = 0;
    failed_ = false;
    changed_.notify_all();
  }
  Status uploaded = upload(runs);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !has_job_; });
  return uploaded ? downloaded_ : uploaded;
}

Status StagingRing::upload(std::span<const CopyRun> runs) {
  ChunkCursor targets(runs, chunk_bytes_);
  for (int64_t n = 0; targets.next_upload(chunk(n), uploads_); ++n) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return n_filled_ > n || failed_; });
      if (n_filled_ <= n) return {};  // the downloader has the error
    }
    Status written = to_.write(uploads_);
    const std::lock_guard lock(mutex_);
    if (written)
      ++n_emptied_;
    else
      failed_ = true;
    changed_.notify_all();
    if (!written) return written;
  }
  return {};
}

Status StagingRing::download(std::span<const CopyRun> runs) {
  ChunkCursor sources(runs, chunk_bytes_);
  for (int64_t n = 0; sources.next_download(chunk(n), downloads_); ++n) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return n - n_emptied_ < n_chunks_ || failed_; });
      if (failed_) return {};  // the uploading side has the error
    }
    if (Status status = from_.read(downloads_); !status) return status;
    const std::lock_guard lock(mutex_);
    ++n_filled_;
    changed_.notify_all();
  }
  return {};
}

void StagingRing::downloader_main() {
  // Signals are the loop thread's business.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return has_job_ || stopping_; });
    if (stopping_) return;
    const std::span<const CopyRun> runs = job_;
    lock.unlock();
    Status status = download(runs);
    lock.lock();
    if (!status) failed_ = true;
    downloaded_ = std::move(status);
    has_job_ = false;
    changed_.notify_all();
  }
}

}  // namespace hs
