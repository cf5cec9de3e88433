#include "device/peer_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "device/link_pattern.h"

namespace hs {
namespace {

constexpr size_t kRangesMax = 2048;  // checked together

}  // namespace

std::string_view to_string(LinkPath path) {
  switch (path) {
    case LinkPath::kSame:
      return "same";
    case LinkPath::kPeer:
      return "peer";
    case LinkPath::kStaged:
      return "staged";
  }
  return "unknown";
}

PeerLink::PeerLink(Device& from, Device& to) : from_(from), to_(to) {
  ranges_.reserve(kRangesMax);
}

Result<std::unique_ptr<PeerLink>> PeerLink::open(Device& from, Device& to, LinkChoice wanted,
                                                 const Options& options) {
  std::unique_ptr<PeerLink> link(new PeerLink(from, to));
  if (&from == &to) return link;
  Result<std::unique_ptr<StagingRing>> ring =
      StagingRing::create(from, to, options.chunk_bytes, options.n_chunks);
  if (!ring) return std::unexpected(ring.error());
  link->ring_ = std::move(*ring);
  if (Status chosen = link->choose_path(wanted, options.chunk_bytes); !chosen)
    return std::unexpected(chosen.error());
  return link;
}

Status PeerLink::choose_path(LinkChoice wanted, size_t chunk_bytes) {
  const auto works = [&](LinkPath path) {
    return check_link(from_, to_, chunk_bytes,
                      [&](std::span<const CopyRun> runs) { return run_path(path, runs); });
  };
  if (wanted != LinkChoice::kStaged) {
    const Status peer = to_.reaches(from_)
                            ? works(LinkPath::kPeer)
                            : fail(ErrorKind::kUnavailable,
                                   fmt::format("{} does not reach the memory of {}",
                                               to_string(to_.id()), to_string(from_.id())));
    if (peer) {
      path_ = LinkPath::kPeer;
      return {};
    }
    if (wanted == LinkChoice::kPeer)
      return fail(ErrorKind::kUnavailable,
                  fmt::format("no peer copies from {} to {}: {}", to_string(from_.id()),
                              to_string(to_.id()), peer.error().message));
    note_ = peer.error().message;
  }
  path_ = LinkPath::kStaged;
  return works(LinkPath::kStaged);
}

Status PeerLink::run_path(LinkPath path, std::span<const CopyRun> runs) {
  return path == LinkPath::kStaged ? ring_->copy(runs) : to_.copy_from(from_, runs);
}

Result<uint64_t> PeerLink::checksum(Side side, std::span<const CopyRun> runs) {
  uint64_t sum = 0;
  for (size_t first = 0; first < runs.size(); first += kRangesMax) {
    ranges_.clear();
    for (const CopyRun& run : runs.subspan(first, std::min(kRangesMax, runs.size() - first)))
      ranges_.push_back({side == Side::kFrom ? run.from : run.to, run.bytes});
    Device& device = side == Side::kFrom ? from_ : to_;
    const Result<MemoryCheck> check = device.check(ranges_, DType::kU8);
    if (!check) return std::unexpected(check.error());
    sum = mix64(sum + check->checksum);
  }
  return sum;
}

Status PeerLink::attempt(LinkPath path, std::span<const CopyRun> runs, const uint64_t* expected) {
  if (Status copied = run_path(path, runs); !copied) return copied;
  if (expected == nullptr) return {};
  const Result<uint64_t> arrived = checksum(Side::kTo, runs);
  if (!arrived) return std::unexpected(arrived.error());
  if (*arrived == *expected) return {};
  return fail(ErrorKind::kDataLoss,
              fmt::format("a {} copy from {} to {} arrived damaged", to_string(path),
                          to_string(from_.id()), to_string(to_.id())));
}

void PeerLink::count_retry(LinkPath path, const Error& error) {
  const bool is_first = n_retries_.fetch_add(1, std::memory_order_relaxed) == 0;
  if (path == LinkPath::kPeer) {
    log_warning("{}; copies from {} to {} go by way of the host from now on", error.message,
                to_string(from_.id()), to_string(to_.id()));
    path_ = LinkPath::kStaged;
  } else if (is_first) {
    log_warning("{}; copied again", error.message);
  }
}

// An error of a lost device does not say at which end.
std::unexpected<Error> PeerLink::failed(const Error& error, std::span<const CopyRun> runs) {
  is_source_lost_ = error.kind == ErrorKind::kUnavailable && path() != LinkPath::kSame &&
                    !runs.empty() && checksum(Side::kTo, runs.first(1)).has_value();
  return std::unexpected(error);
}

Result<LinkCopy> PeerLink::copy(std::span<const CopyRun> runs, bool verify) {
  is_source_lost_ = false;
  LinkCopy result;
  for (const CopyRun& run : runs) result.bytes += run.bytes;
  const bool is_checked = verify && path() != LinkPath::kSame;
  uint64_t expected = 0;
  if (is_checked) {
    const Result<uint64_t> source = checksum(Side::kFrom, runs);
    if (!source) return failed(source.error(), runs);
    expected = *source;
  }
  constexpr int kStagedAttemptsMax = 2;
  int n_staged = 0;
  while (true) {
    result.path = path();
    if (result.path == LinkPath::kStaged) ++n_staged;
    const Status copied = attempt(result.path, runs, is_checked ? &expected : nullptr);
    if (copied) return result;
    const bool is_lost =
        result.path != LinkPath::kPeer && copied.error().kind == ErrorKind::kUnavailable;
    if (is_lost || result.path == LinkPath::kSame || n_staged == kStagedAttemptsMax)
      return failed(copied.error(), runs);
    ++result.n_retries;
    count_retry(result.path, copied.error());
  }
}

}  // namespace hs
