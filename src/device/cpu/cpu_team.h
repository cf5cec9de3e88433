// The threads of one CPU device.
//
// Work is handed out in small items from one counter, never split beforehand: when another process
// takes a core for a while, the other workers carry on with its share. The caller always takes
// part, so a run ends even if no worker wakes up in time. Idle workers spin for a moment, for the
// next op of the same step, and then sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "kernels/team.h"

namespace hs {

// Default initializers even where the type has one: GCC warns of designated initializers that leave
// such a member out. NOLINTBEGIN(readability-redundant-member-init)
struct CpuTeamOptions {
  int threads = 1;  // >= 1, the caller of run() included
  // Worker i is pinned to cores[i]; empty: not pinned. cores[0] is the caller's, whose own thread
  // is left alone: pin_this_thread() does it.
  std::vector<int> cores = {};
  std::string name = {};  // of the threads, for people; at most 11 characters are shown
};
// NOLINTEND(readability-redundant-member-init)

class CpuTeam final : public Team {
 public:
  explicit CpuTeam(const CpuTeamOptions& options);
  ~CpuTeam() override;  // no run() may be going on

  int size() const override { return n_workers_; }
  // One caller at a time; it is worker 0.
  void run(int64_t n_items, FunctionRef<void(int64_t item, int worker)> work) override;
  // Grows when asked for more than before, which costs the op that asks; see reserve_scratch().
  std::byte* scratch(int worker, size_t bytes) override;
  // Makes all scratch at least this large now; what it held is lost. No run() may be going on.
  void reserve_scratch(size_t first_bytes, size_t other_bytes);  // of worker 0, of each other
  int64_t n_scratch_allocations() const { return n_allocations_.load(std::memory_order_relaxed); }

 private:
  using Work = FunctionRef<void(int64_t, int)>;

  struct alignas(64) Arena {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };

  void worker_main(int worker, int core, const std::string& name);
  bool join_run();
  void leave_run();
  void wait_for_opening(uint32_t seen);
  void take_items(int worker);
  void open_run();
  void close_run();

  // One run's work: written by the caller while nobody has joined, read by those who have.
  const Work* work_ = nullptr;
  int64_t n_items_ = 0;
  alignas(64) std::atomic<int64_t> next_item_{0};

  // kClosed: nobody may join; kCallerWaits: the last to leave wakes the caller; the low bits count
  // who has joined.
  alignas(64) std::atomic<uint32_t> state_;
  // Counts the runs that were opened; idle workers sleep on it.
  alignas(64) std::atomic<uint32_t> opened_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stopping_{false};

  int n_workers_ = 1;
  std::vector<Arena> arenas_;
  std::atomic<int64_t> n_allocations_{0};
  std::vector<std::jthread> threads_;
};

// Keeps the calling thread on one core; false if the system refuses.
bool pin_this_thread(int core);

// The cores this process may run on, ascending.
std::vector<int> process_cores();

}  // namespace hs
