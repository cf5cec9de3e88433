#include "device/cpu/cpu_team.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "device/cpu/host_memory.h"

namespace hs {
namespace {

constexpr uint32_t kClosed = 1U << 31;
constexpr uint32_t kCallerWaits = 1U << 30;
constexpr uint32_t kJoinedMask = kCallerWaits - 1;

// Longer than the gap between two ops of a step, shorter than what anyone would miss.
constexpr auto kSpin = std::chrono::microseconds(40);

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(const std::atomic<uint32_t>& word, int n_threads) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, n_threads, nullptr, nullptr, 0);
}

// Spins until done() or the time is over; says whether done() was seen.
template <typename Done>
bool spin_until(const Done& done) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  return false;
}

}  // namespace

CpuTeam::CpuTeam(const CpuTeamOptions& options)
    : state_(kClosed), arenas_(static_cast<size_t>(options.threads)) {
  HS_CHECK_GE(options.threads, 1);
  HS_CHECK_LT(static_cast<uint32_t>(options.threads), kJoinedMask);
  for (int worker = 1; worker < options.threads; ++worker) {
    const auto index = static_cast<size_t>(worker);
    const int core = index < options.cores.size() ? options.cores[index] : -1;
    try {
      threads_.emplace_back(&CpuTeam::worker_main, this, worker, core,
                            fmt::format("{}-{}", options.name.substr(0, 11), worker));
    } catch (const std::system_error& error) {
      log_warning("{} runs with {} of {} threads: {}", options.name, worker, options.threads,
                  error.what());
      break;
    }
  }
  // Fewer if the system has no more threads; arenas_ itself is fixed, since workers already use it.
  n_workers_ = static_cast<int>(threads_.size()) + 1;
}

CpuTeam::~CpuTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  opened_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(opened_, INT_MAX);
  threads_.clear();  // joins
  for (const Arena& arena : arenas_) free_host_memory(arena.data, arena.bytes);
}

std::byte* CpuTeam::scratch(int worker, size_t bytes) {
  HS_CHECK_LT(worker, size());
  constexpr size_t kUnit = size_t{64} << 10;
  Arena& arena = arenas_[static_cast<size_t>(worker)];
  if (arena.bytes < bytes || arena.data == nullptr) {
    free_host_memory(arena.data, arena.bytes);
    arena.bytes = (bytes + kUnit) / kUnit * kUnit;
    arena.data = static_cast<std::byte*>(allocate_host_memory(arena.bytes));
    HS_CHECK(arena.data != nullptr);
    n_allocations_.fetch_add(1, std::memory_order_relaxed);
  }
  return arena.data;
}

void CpuTeam::reserve_scratch(size_t first_bytes, size_t other_bytes) {
  for (int worker = 0; worker < size(); ++worker)
    scratch(worker, worker == 0 ? first_bytes : other_bytes);
}

void CpuTeam::run(int64_t n_items, Work work) {
  if (n_items <= 0) return;
  if (threads_.empty() || n_items == 1) {
    for (int64_t item = 0; item < n_items; ++item) work(item, 0);
    return;
  }
  HS_CHECK((state_.load(std::memory_order_relaxed) & kClosed) != 0);  // not reentrant
  work_ = &work;
  n_items_ = n_items;
  next_item_.store(0, std::memory_order_relaxed);
  open_run();
  take_items(0);
  close_run();
}

void CpuTeam::take_items(int worker) {
  const Work& work = *work_;
  const int64_t n_items = n_items_;
  for (int64_t item = next_item_.fetch_add(1, std::memory_order_relaxed); item < n_items;
       item = next_item_.fetch_add(1, std::memory_order_relaxed)) {
    work(item, worker);
  }
}

void CpuTeam::open_run() {
  state_.store(0, std::memory_order_release);
  // Sequentially consistent against wait_for_opening(): either the worker sees the new number, or
  // we see the sleeper.
  opened_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake(opened_, INT_MAX);
}

// Bars the door, then waits for those inside. A worker that has not woken up yet is not waited for.
void CpuTeam::close_run() {
  uint32_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  if ((state & kJoinedMask) == 0) return;
  const auto all_left = [&] { return (state_.load(std::memory_order_acquire) & kJoinedMask) == 0; };
  if (spin_until(all_left)) return;
  state = state_.fetch_or(kCallerWaits, std::memory_order_acq_rel) | kCallerWaits;
  while ((state & kJoinedMask) != 0) {
    futex_wait(state_, state);
    state = state_.load(std::memory_order_acquire);
  }
}

bool CpuTeam::join_run() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kClosed) == 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void CpuTeam::leave_run() {
  const uint32_t state = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((state & kJoinedMask) == 0 && (state & kCallerWaits) != 0) futex_wake(state_, 1);
}

void CpuTeam::wait_for_opening(uint32_t seen) {
  const auto opened = [&] { return opened_.load(std::memory_order_acquire) != seen; };
  if (spin_until(opened)) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (opened_.load(std::memory_order_seq_cst) == seen) futex_wait(opened_, seen);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void CpuTeam::worker_main(int worker, int core, const std::string& name) {
  pthread_setname_np(pthread_self(), name.c_str());
  // Signals are the loop thread's business.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  if (core >= 0 && !pin_this_thread(core)) {
    log_warning("thread {} cannot be pinned to core {}; it runs unpinned", name, core);
  }
  uint32_t seen = 0;
  while (true) {
    wait_for_opening(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    seen = opened_.load(std::memory_order_acquire);
    if (join_run()) {
      take_items(worker);
      leave_run();
    }
  }
}

bool pin_this_thread(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core < 0 || core >= CPU_SETSIZE) return false;
  CPU_SET(static_cast<size_t>(core), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

std::vector<int> process_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

}  // namespace hs
