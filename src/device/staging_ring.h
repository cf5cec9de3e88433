// Copies between devices that cannot reach each other: through a ring of chunks in host memory,
// the download of the next chunk beside the upload of the last.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace hs {

// Small runs are gathered into a chunk and scattered from it. All memory is taken by create().
class StagingRing {
 public:
  // chunk_bytes >= 64, n_chunks >= 1. The devices must outlive the ring. Errors: what allocation
  // says.
  static Result<std::unique_ptr<StagingRing>> create(Device& from, Device& to, size_t chunk_bytes,
                                                     int32_t n_chunks);
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;
  ~StagingRing();

  // Complete when it returns. One thread at a time. Errors: those of the devices.
  Status copy(std::span<const CopyRun> runs);

 private:
  StagingRing(Device& from, Device& to, size_t chunk_bytes, int32_t n_chunks);

  Status copy_chunk_by_chunk(std::span<const CopyRun> runs);
  Status copy_overlapped(std::span<const CopyRun> runs);
  Status download(std::span<const CopyRun> runs);
  Status upload(std::span<const CopyRun> runs);
  void downloader_main();
  std::byte* chunk(int64_t n) {
    return chunks_.as<std::byte>() + static_cast<size_t>(n % n_chunks_) * chunk_bytes_;
  }

  Device& from_;
  Device& to_;
  size_t chunk_bytes_;
  int32_t n_chunks_;
  Buffer chunks_;
  std::vector<CopyRun> downloads_;  // of one chunk; the downloading thread's
  std::vector<CopyRun> uploads_;    // of one chunk; the copying thread's

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::span<const CopyRun> job_;
  bool has_job_ = false;  // until the downloader has finished with it
  int64_t n_filled_ = 0;  // chunks of this job
  int64_t n_emptied_ = 0;
  bool failed_ = false;
  bool stopping_ = false;
  Status downloaded_;
  std::jthread downloader_;  // only where the two copies can overlap
};

}  // namespace hs
