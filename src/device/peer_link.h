// A way from one device's memory to another's that was seen to work.
//
//   same    both are one device: a copy inside its memory
//   peer    the target device reads the source device's memory itself
//   staged  through a ring of chunks in host memory (device/staging_ring.h)
//
// open() takes the first of these that brings a pattern across unharmed. Devices that say they
// reach each other do not always: a copy that looks complete may hold zeros or old bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device/staging_ring.h"

namespace hs {

enum class LinkPath { kSame, kPeer, kStaged };
std::string_view to_string(LinkPath path);  // "same", "peer", "staged"

enum class LinkChoice {
  kAuto,    // peer where it works, else staged
  kPeer,    // peer or an error
  kStaged,  // never peer
};

struct LinkCopy {
  LinkPath path = LinkPath::kSame;  // that brought the bytes
  size_t bytes = 0;                 // of the runs, counted once
  int32_t n_retries = 0;            // attempts before that failed or arrived damaged
};

class PeerLink {
 public:
  struct Options {
    size_t chunk_bytes = size_t{1} << 20;  // >= 64
    int32_t n_chunks = 4;                  // >= 1; two and more let download and upload overlap
  };

  // Tries the paths with patterns of several sizes at odd addresses, which takes about
  // 4 * chunk_bytes of each device's memory until it returns; chunk_bytes * n_chunks of host memory
  // stay in use. One device takes path `same` whatever is wanted. Logs nothing: note() says what
  // happened. The devices must outlive the link. Any thread.
  // Errors: kUnavailable when `wanted` is peer and that does not work, kDataLoss when patterns
  // arrive damaged by every path, and those of the devices.
  static Result<std::unique_ptr<PeerLink>> open(Device& from, Device& to, LinkChoice wanted,
                                                const Options& options);
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // Copies all runs, each from `from`'s memory to `to`'s; complete when it returns. The sources
  // must be finished, and stay unchanged meanwhile. Thread: one at a time, the lane's of `to`.
  // Takes no memory.
  //
  // With `verify`, both devices compute the checksum of what they hold, and a copy that arrived
  // damaged counts as failed. A copy that failed is repeated by the next path (peer, staged, staged
  // once more) and a warning is logged; peer is then not used again. Path `same` is not verified.
  // Errors: kUnavailable as soon as a device is lost, kDataLoss when the last attempt arrived
  // damaged too, else the last attempt's.
  Result<LinkCopy> copy(std::span<const CopyRun> runs, bool verify);

  // Of a copy() that failed because a device was lost: whether the source is the one, which is
  // known by the target's still working. Thread: copy()'s, or one that is told of its end.
  bool is_source_lost() const { return is_source_lost_; }
  LinkPath path() const { return path_.load(std::memory_order_relaxed); }  // any thread
  // Why the path is not a shorter one; empty when there is nothing to say. Fixed by open().
  const std::string& note() const { return note_; }
  // Attempts of copy() that failed or arrived damaged. Any thread.
  int64_t retries() const { return n_retries_.load(std::memory_order_relaxed); }

 private:
  PeerLink(Device& from, Device& to);
  Status choose_path(LinkChoice wanted, size_t chunk_bytes);
  Status run_path(LinkPath path, std::span<const CopyRun> runs);
  Status attempt(LinkPath path, std::span<const CopyRun> runs, const uint64_t* expected);
  enum class Side { kFrom, kTo };
  Result<uint64_t> checksum(Side side, std::span<const CopyRun> runs);
  std::unexpected<Error> failed(const Error& error, std::span<const CopyRun> runs);
  void count_retry(LinkPath path, const Error& error);

  Device& from_;
  Device& to_;
  std::unique_ptr<StagingRing> ring_;  // absent for `same`
  std::vector<MemoryRange> ranges_;    // being checked
  std::atomic<LinkPath> path_ = LinkPath::kSame;
  std::string note_;
  bool is_source_lost_ = false;
  std::atomic<int64_t> n_retries_ = 0;
};

}  // namespace hs
