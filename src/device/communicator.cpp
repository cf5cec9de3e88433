#include "device/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "device/host_device.h"
#include "device/link_pattern.h"

namespace hs {
namespace {

constexpr std::string_view kAborted = "group_aborted";
// Ranks are rarely further apart than this, and waking a thread takes about as long.
constexpr auto kSpin = std::chrono::microseconds(40);

std::unexpected<Error> aborted() {
  return fail(ErrorKind::kUnavailable, "Another device that shares the model has failed.",
              std::string(kAborted));
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Status check_pair(const Device& one, const Device& other) {
  if (one.activation_dtype() == other.activation_dtype()) return {};
  return fail(
      ErrorKind::kUnsupported,
      fmt::format("{} and {} cannot share a model: activations are {} and {}", to_string(one.id()),
                  to_string(other.id()), dtype_name(one.activation_dtype()),
                  dtype_name(other.activation_dtype())));
}

// Whether `one` really reads the other's memory. Devices in host memory do.
bool reads(Device& one, Device& other) {
  if (&one == &other || (in_host_memory(one) && in_host_memory(other))) return true;
  if (!one.reaches(other)) return false;
  constexpr size_t kChunkBytes = size_t{64} << 10;
  return check_link(other, one, kChunkBytes,
                    [&](std::span<const CopyRun> runs) { return one.copy_from(other, runs); })
      .has_value();
}

bool all_read_all(const std::vector<Device*>& devices) {
  for (Device* one : devices) {
    for (Device* other : devices) {
      if (!reads(*one, *other)) return false;
    }
  }
  return true;
}

}  // namespace

bool is_group_abort(const Status& status) {
  return !status && status.error().code == kAborted;
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::vector<Device*> devices,
                                                           int64_t elements_max) {
  HS_CHECK(!devices.empty());
  std::vector<Rank> ranks(devices.size());
  const bool is_direct = all_read_all(devices);
  for (size_t i = 0; i < devices.size(); ++i) {
    Device& device = *devices[i];
    for (const Device* other : devices) {
      if (Status pair = check_pair(device, *other); !pair) return std::unexpected(pair.error());
    }
    const size_t bytes = static_cast<size_t>(elements_max) * dtype_bytes(device.activation_dtype());
    auto areas = device.allocate(2 * bytes);
    if (!areas) return std::unexpected(std::move(areas.error()));
    ranks[i].device = &device;
    ranks[i].areas = std::move(*areas);
    ranks[i].parts.resize(devices.size());
    if (is_direct) continue;
    auto host = device.allocate_staging(2 * bytes);
    if (!host) return std::unexpected(std::move(host.error()));
    auto inbox = device.allocate(devices.size() * bytes);
    if (!inbox) return std::unexpected(std::move(inbox.error()));
    ranks[i].host = std::move(*host);
    ranks[i].inbox = std::move(*inbox);
  }
  return std::unique_ptr<Communicator>(new Communicator(std::move(ranks), elements_max, is_direct));
}

Matrix Communicator::area(Rank& rank, uint64_t call, int64_t rows, int64_t cols) {
  HS_CHECK_LE(rows * cols, elements_max_);
  const DType dtype = rank.device->activation_dtype();
  const size_t bytes = static_cast<size_t>(elements_max_) * dtype_bytes(dtype);
  return {rank.areas.as<std::byte>() + call % 2 * bytes, dtype, rows, cols, cols};
}

std::byte* Communicator::host_area(Rank& rank, uint64_t call) {
  return rank.host.as<std::byte>() + call % 2 * (rank.host.bytes() / 2);
}

// What the rank's ops have put into its area is finished, and where the others read it.
Status Communicator::publish(Rank& rank, Matrix its_area) {
  if (Status written = rank.device->sync(); !written || is_direct_) return written;
  return rank.device->read(
      its_area.data, host_area(rank, rank.n_calls),
      static_cast<size_t>(its_area.rows * its_area.cols) * dtype_bytes(its_area.dtype));
}

// The others' parts come to the inbox, whose last readers publish() has waited for.
Status Communicator::receive(Rank& me) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Matrix& part = me.parts[i];
    if (&ranks_[i] == &me) continue;
    const size_t bytes = static_cast<size_t>(part.rows * part.cols) * dtype_bytes(part.dtype);
    part.data = me.inbox.as<std::byte>() + i * (me.inbox.bytes() / ranks_.size());
    Status copied = me.device->write(host_area(ranks_[i], me.n_calls), part.data, bytes);
    if (!copied) return copied;
  }
  return {};
}

// By a rank that has read one matrix from each of the others.
int64_t Communicator::received(Matrix one) const {
  return (std::ssize(ranks_) - 1) * one.rows * one.cols *
         static_cast<int64_t>(dtype_bytes(one.dtype));
}

Matrix Communicator::part(int32_t rank, int64_t rows, int64_t cols) {
  return area(own(rank), own(rank).n_calls, rows, cols);
}

Status Communicator::all_reduce(int32_t rank, Matrix y) {
  Rank& me = own(rank);
  if (Status out = publish(me, area(me, me.n_calls, y.rows, y.cols)); !out) return out;
  if (Status met = meet(); !met) return met;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    me.parts[i] = area(ranks_[i], me.n_calls, y.rows, y.cols);
  }
  if (!is_direct_) {
    if (Status in = receive(me); !in) return in;
  }
  me.device->ops().add_parts(me.parts, y);
  me.bytes_received += received(y);
  ++me.n_calls;
  return {};
}

Status Communicator::broadcast(int32_t rank, Matrix x) {
  Rank& me = own(rank);
  const Matrix source = area(ranks_.front(), me.n_calls, x.rows, x.cols);
  if (rank == 0) me.device->ops().copy(x, source);
  Status out = rank == 0 ? publish(me, source) : me.device->sync();
  if (!out) return out;
  if (Status met = meet(); !met) return met;
  if (rank != 0 && is_direct_) me.device->ops().copy(source, x);
  if (rank != 0 && !is_direct_) {
    HS_CHECK_EQ(x.stride, x.cols);
    Status in = me.device->write(host_area(ranks_.front(), me.n_calls), x.data,
                                 static_cast<size_t>(x.rows * x.cols) * dtype_bytes(x.dtype));
    if (!in) return in;
  }
  if (rank != 0) {
    me.bytes_received += received(x) / (std::ssize(ranks_) - 1);
  }
  ++me.n_calls;
  return {};
}

// Nobody can be a meeting ahead, so the count is of this one. A meeting that is given up moves
// meetings_ on, too; aborted_ is set before, and is looked at after meetings_.
Status Communicator::meet() {
  const uint32_t before = meetings_.load();
  if (aborted_.load()) return aborted();
  if (n_arrived_.fetch_add(1) + 1 == ranks_.size()) {
    n_arrived_.store(0);
    meetings_.fetch_add(1);
    meetings_.notify_all();
    return {};
  }
  const auto start = std::chrono::steady_clock::now();
  while (meetings_.load() == before && std::chrono::steady_clock::now() - start < kSpin) relax();
  while (meetings_.load() == before) meetings_.wait(before);
  if (aborted_.load()) return aborted();
  return {};
}

void Communicator::abort() {
  aborted_.store(true);
  meetings_.fetch_add(1);
  meetings_.notify_all();
}

void Communicator::reset() {
  for (Rank& rank : ranks_) rank.n_calls = 0;
  n_arrived_.store(0);
  aborted_.store(false);
}

}  // namespace hs
