// A group of devices that compute one thing together: tensor parallelism.
//
// Each device is a rank, called by the thread that runs its ops. All ranks make the same calls with
// the same shapes in the same order, and a call of one ends when the others have made it too. A sum
// is added up in the order of the ranks, so that all of them have the same bits, every time. A rank
// that cannot go on says abort(): whoever waits for it, or is going to, gets an error.
//
// A rank leaves what the others are to read in one of two areas of its own, used in turn. A rank
// that is one call ahead writes to the other area than those behind it read, so one meeting a call
// is enough. Where every device reaches every other, and a copied pattern shows it, the areas are
// read where they are; else through host memory, that each rank copies its part to and the others
// from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace hs {

class Communicator {
 public:
  // Areas of `elements_max` activations on each device; the devices outlive the communicator.
  // Errors: kUnsupported when a device has another activation dtype, and those of allocate().
  static Result<std::unique_ptr<Communicator>> create(std::vector<Device*> devices,
                                                      int64_t elements_max);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int32_t size() const { return static_cast<int32_t>(ranks_.size()); }
  // Whether the ranks read each other's memory, not copies of it in the host's.
  bool is_direct() const { return is_direct_; }

  // ---- the rank's thread. Errors: what the device says, or "group_aborted".

  // Where the rank leaves its part of the next sum, on its device; contents are undefined before.
  Matrix part(int32_t rank, int64_t rows, int64_t cols);
  // y += the sum over all ranks of what they left in part(rank, y.rows, y.cols).
  Status all_reduce(int32_t rank, Matrix y);
  // x = x of rank 0
  Status broadcast(int32_t rank, Matrix x);
  // Waits until all ranks are here.
  Status meet();
  // What the rank has read from other devices so far.
  int64_t bytes_received(int32_t rank) const { return own(rank).bytes_received; }

  // ---- any thread

  // Calls in progress and to come end with kUnavailable "group_aborted", until reset().
  void abort();
  // As new. No rank is in a call.
  void reset();

 private:
  struct alignas(64) Rank {
    Device* device = nullptr;
    Buffer areas;          // (2, elements_max)
    Buffer host;           // the same in host memory, for the others; empty when direct
    Buffer inbox;          // (n ranks, elements_max): what the others had; empty when direct
    uint64_t n_calls = 0;  // collectives done; its parity says which area is next
    int64_t bytes_received = 0;
    std::vector<Matrix> parts;  // work area of all_reduce()
  };

  Communicator(std::vector<Rank> ranks, int64_t elements_max, bool is_direct)
      : ranks_(std::move(ranks)), elements_max_(elements_max), is_direct_(is_direct) {}
  Rank& own(int32_t rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& own(int32_t rank) const { return ranks_[static_cast<size_t>(rank)]; }
  Matrix area(Rank& rank, uint64_t call, int64_t rows, int64_t cols);
  std::byte* host_area(Rank& rank, uint64_t call);
  Status publish(Rank& rank, Matrix area);
  Status receive(Rank& me);
  int64_t received(Matrix one) const;

  std::vector<Rank> ranks_;
  int64_t elements_max_;
  bool is_direct_;
  alignas(64) std::atomic<uint32_t> n_arrived_ = 0;  // at the meeting
  alignas(64) std::atomic<uint32_t> meetings_ = 0;   // changes when one is over, or given up
  std::atomic<bool> aborted_ = false;
};

// Whether an error only says that another rank of the group has failed.
bool is_group_abort(const Status& status);

}  // namespace hs
