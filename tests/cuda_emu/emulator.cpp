#include "cuda_emu/emulator.h"

#include <fmt/format.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda_emu/built_in.h"
#include "cuda_emu/fiber.h"
#include "cuda_emu/memory.h"

thread_local uint3 threadIdx;
thread_local uint3 blockIdx;
thread_local dim3 blockDim;
thread_local dim3 gridDim;

namespace hs::cuda_emu {
namespace {

constexpr int kWarp = 32;
constexpr size_t kStackBytes = size_t{128} << 10;

// A barrier or a collective that some threads have reached. `generation` counts how often it was
// complete.
struct Meeting {
  uint32_t mask = 0;
  uint32_t arrived = 0;
  uint64_t generation = 0;
  const char* op = "";
  std::source_location where;
  Lanes lanes;
};

struct PendingCopy {
  std::byte* target;
  const std::byte* source;
  int n_valid;
};

struct Thread {
  Fiber fiber;
  unsigned index = 0;
  bool done = false;
  const uint64_t* waits_for = nullptr;  // a generation, until it is `wanted`
  uint64_t wanted = 0;
  const char* op = "start";
  std::source_location where;
  std::vector<std::vector<PendingCopy>> copies;  // committed groups, and the open one at the end
};

std::string place(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
}

// One launch.
class Grid {
 public:
  Grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body);
  void run();

  void wait_for_block(std::source_location where);
  void meet(uint32_t mask, const char* op, const void* in, size_t in_bytes, void* out,
            size_t out_bytes, void (*combine)(Lanes&), std::source_location where);
  [[noreturn]] void fail(std::string text, cudaError_t error = cudaErrorLaunchFailure);
  std::byte* shared() const { return shared_.data(); }
  Thread& current() { return *current_; }

 private:
  static void enter();
  void run_block(uint64_t block);
  bool run_threads(size_t first, size_t last);
  void resume(Thread& thread);
  void wait(const uint64_t& generation, const char* op, std::source_location where);
  std::string who() const;
  std::string deadlock() const;
  void finish_block();

  dim3 grid_;
  dim3 block_;
  const std::function<void()>& body_;
  GuardedMemory shared_;
  std::vector<Thread> threads_;
  std::vector<std::vector<std::unique_ptr<Meeting>>> meetings_;  // of each warp, one for each mask
  Meeting barrier_;
  std::vector<unsigned> order_;
  Thread* current_ = nullptr;
  Fiber scheduler_;
  std::string fault_;
  cudaError_t fault_error_ = cudaErrorLaunchFailure;
  uint64_t block_now_ = 0;
};

struct State {
  Schedule schedule = Schedule::kAscending;
  uint64_t seed = 1;
  uint64_t n_resumes = 0;
  std::vector<FiberStack> stacks;
  FiberStack emergency{kStackBytes};
  FiberStack signals{kStackBytes};
  const void* bad_address = nullptr;
  bool bad_write = false;
  Grid* grid = nullptr;
};
thread_local State state;
std::atomic<std::string (*)(const void*)> fault_describer = nullptr;

Grid& grid_here() {
  if (state.grid == nullptr) throw Fault("a device function was called outside of a kernel");
  return *state.grid;
}

Grid::Grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body)
    : grid_(grid),
      block_(block),
      body_(body),
      shared_(shared_bytes, 128),
      threads_(block.x),
      meetings_(block.x / kWarp),
      order_(block.x) {
  while (state.stacks.size() < threads_.size()) state.stacks.emplace_back(kStackBytes);
  std::iota(order_.begin(), order_.end(), 0U);
  if (state.schedule == Schedule::kDescending) std::reverse(order_.begin(), order_.end());
}

void Grid::run() {
  std::vector<uint64_t> blocks(uint64_t{grid_.x} * grid_.y * grid_.z);
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::mt19937_64 random(state.seed);
  if (state.schedule == Schedule::kDescending) std::reverse(blocks.begin(), blocks.end());
  if (state.schedule == Schedule::kShuffled) std::shuffle(blocks.begin(), blocks.end(), random);
  gridDim = grid_;
  blockDim = block_;
  for (const uint64_t block : blocks) {
    if (state.schedule == Schedule::kShuffled) std::shuffle(order_.begin(), order_.end(), random);
    run_block(block);
  }
}

void Grid::run_block(uint64_t block) {
  block_now_ = block;
  blockIdx = {static_cast<unsigned>(block % grid_.x),
              static_cast<unsigned>(block / grid_.x % grid_.y),
              static_cast<unsigned>(block / grid_.x / grid_.y)};
  shared_.poison();
  barrier_ = {};
  for (auto& warp : meetings_) warp.clear();
  for (size_t i = 0; i < threads_.size(); ++i) {
    Thread& t = threads_[i];
    t.fiber = make_fiber(state.stacks[i], &Grid::enter);
    t.index = static_cast<unsigned>(i);
    t.done = false;
    t.waits_for = nullptr;
    t.op = "start";
    t.copies.assign(1, {});
  }
  const size_t step = state.schedule == Schedule::kShuffled ? order_.size() : size_t{kWarp};
  for (bool all_done = false; !all_done;) {
    bool moved = false;
    for (size_t first = 0; first < order_.size(); first += step) {
      while (run_threads(first, first + step)) moved = true;
    }
    all_done =
        std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) { return t.done; });
    if (!moved && !all_done) throw Fault(deadlock());
  }
  finish_block();
}

// Resumes each thread that can go on, once; whether there was one.
bool Grid::run_threads(size_t first, size_t last) {
  bool moved = false;
  for (size_t i = first; i < last; ++i) {
    Thread& t = threads_[order_[i]];
    if (t.done || (t.waits_for != nullptr && *t.waits_for != t.wanted)) continue;
    moved = true;
    resume(t);
    if (!fault_.empty()) throw Fault(fault_, fault_error_);
  }
  return moved;
}

void Grid::resume(Thread& thread) {
  current_ = &thread;
  thread.waits_for = nullptr;
  threadIdx = {thread.index, 0, 0};
  ++state.n_resumes;
  switch_fiber(scheduler_, thread.fiber);
  current_ = nullptr;
}

void Grid::enter() {
  Grid& grid = *state.grid;
  entered_fiber(grid.scheduler_);
  grid.body_();
  Thread& self = grid.current();
  self.done = true;
  for (const auto& group : self.copies) {
    if (!group.empty()) grid.fail("ends with a cp.async that nobody waited for");
  }
  switch_fiber(self.fiber, grid.scheduler_);
}

void Grid::wait(const uint64_t& generation, const char* op, std::source_location where) {
  Thread& self = *current_;
  self.waits_for = &generation;
  self.wanted = generation + 1;
  self.op = op;
  self.where = where;
  switch_fiber(self.fiber, scheduler_);
}

void Grid::wait_for_block(std::source_location where) {
  if (++barrier_.arrived == threads_.size()) {
    barrier_.arrived = 0;
    ++barrier_.generation;
    return;
  }
  wait(barrier_.generation, "__syncthreads", where);
}

void Grid::meet(uint32_t mask, const char* op, const void* in, size_t in_bytes, void* out,
                size_t out_bytes, void (*combine)(Lanes&), std::source_location where) {
  const unsigned lane = current_->index % kWarp;
  if ((mask >> lane & 1) == 0) fail(fmt::format("{}: the lane is not in its own mask", op));
  auto& warp = meetings_[current_->index / kWarp];
  Meeting* m = nullptr;
  for (const auto& other : warp) {
    if (other->mask == mask) m = other.get();
  }
  if (m == nullptr) {
    m = warp.emplace_back(std::make_unique<Meeting>()).get();
    m->mask = m->lanes.mask = mask;
  }
  const bool same_place =
      m->where.line() == where.line() && std::strcmp(m->where.file_name(), where.file_name()) == 0;
  if (m->arrived != 0 && (std::strcmp(m->op, op) != 0 || !same_place)) {
    fail(fmt::format("lanes of one warp meet in different operations: {} at {} and {} at {}", m->op,
                     place(m->where), op, place(where)));
  }
  m->op = op;
  m->where = where;
  if (in_bytes > 0) std::memcpy(m->lanes.in[lane], in, in_bytes);
  m->arrived |= 1U << lane;
  if (m->arrived == mask) {
    m->arrived = 0;
    ++m->generation;
    if (combine != nullptr) combine(m->lanes);
  } else {
    wait(m->generation, op, where);
  }
  if (out_bytes > 0) std::memcpy(out, m->lanes.out[lane], out_bytes);
}

std::string Grid::who() const {
  return fmt::format("block {} thread {}", block_now_, current_->index);
}

// Never returns: the thread's stack is dropped, and what stands there not destroyed.
void Grid::fail(std::string text, cudaError_t error) {
  fault_error_ = error;
  fault_ = fmt::format("{}: {}", who(), std::exchange(text, {}));
  switch_fiber(current_->fiber, scheduler_);
  __builtin_unreachable();
}

std::string Grid::deadlock() const {
  std::string text = fmt::format("deadlock in block {}:", block_now_);
  size_t done = 0;
  int shown = 0;
  for (const Thread& t : threads_) {
    done += t.done;
    if (t.done || shown == 6) continue;
    ++shown;
    text += fmt::format(" thread {} waits in {} at {};", t.index, t.op, place(t.where));
  }
  return text + fmt::format(" {} of {} threads have left the kernel", done, threads_.size());
}

void Grid::finish_block() {
  if (!shared_.intact())
    throw Fault(fmt::format("block {} wrote beside its shared memory", block_now_));
}

// A fault of a kernel's memory access is turned into a call of this function, on a stack of its
// own.
void report_bad_access() {
  std::string text = "access to memory that is not the kernel's";
  if (const auto describe = fault_describer.load(); describe != nullptr) {
    text += fmt::format(": {} {}", state.bad_write ? "write to" : "read of",
                        describe(state.bad_address));
  }
  grid_here().fail(std::move(text), cudaErrorIllegalAddress);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  if (state.grid == nullptr) {  // not a kernel's: again, and then as if nobody had been here
    ::signal(signal, SIG_DFL);
    return;
  }
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const FiberStack& stack = state.emergency;
  constexpr greg_t kWrite = 2;
  state.bad_write = (registers[REG_ERR] & kWrite) != 0;
  state.bad_address = info->si_addr;
  // As after a call: 8 modulo 16.
  registers[REG_RSP] = reinterpret_cast<greg_t>(stack.bottom() + stack.bytes() - 8);
  registers[REG_RIP] = reinterpret_cast<greg_t>(&report_bad_access);
}

// Takes faults over while a kernel runs.
class FaultHandler {
 public:
  FaultHandler() {
    const FiberStack& stack = state.signals;
    forget_frames(state.emergency);  // of a report
    const stack_t mine = {.ss_sp = stack.bottom(), .ss_flags = 0, .ss_size = stack.bytes()};
    sigaltstack(&mine, &old_stack_);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &old_segv_);
    sigaction(SIGBUS, &action, &old_bus_);
  }
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler() {
    sigaction(SIGSEGV, &old_segv_, nullptr);
    sigaction(SIGBUS, &old_bus_, nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  stack_t old_stack_ = {};
  struct sigaction old_segv_ = {};
  struct sigaction old_bus_ = {};
};

}  // namespace

std::string shape_fault(dim3 grid, dim3 block, size_t shared_bytes) {
  constexpr unsigned kGridXMax = 0x7FFFFFFF, kGridYzMax = 65535;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kGridXMax || grid.y > kGridYzMax ||
      grid.z > kGridYzMax) {
    return fmt::format("grid of {} x {} x {} blocks", grid.x, grid.y, grid.z);
  }
  if (block.y != 1 || block.z != 1 || block.x == 0 || block.x % kWarp != 0 ||
      block.x > kBlockThreadsMax) {
    return fmt::format("block of {} x {} x {} threads", block.x, block.y, block.z);
  }
  if (shared_bytes > kSharedBytesMax) return fmt::format("{} bytes of shared memory", shared_bytes);
  return {};
}

void set_fault_describer(std::string (*describe)(const void* address)) {
  fault_describer = describe;
}

void set_schedule(Schedule schedule, uint64_t seed) {
  state.schedule = schedule;
  state.seed = seed;
}

uint64_t n_resumes() {
  return state.n_resumes;
}

void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body) {
  if (const std::string fault = shape_fault(grid, block, shared_bytes); !fault.empty()) {
    throw Fault(fault, cudaErrorInvalidConfiguration);
  }
  if (state.grid != nullptr) throw Fault("a kernel was launched from inside a kernel");
  Grid run(grid, block, shared_bytes, body);
  const FaultHandler handler;
  struct Here {
    explicit Here(Grid* g) { state.grid = g; }
    ~Here() { state.grid = nullptr; }
  } const here(&run);
  run.run();
}

void fail(const char* text, std::source_location where) {
  grid_here().fail(fmt::format("{} at {}", text, place(where)), cudaErrorMisalignedAddress);
}

void wait_for_block(std::source_location where) {
  grid_here().wait_for_block(where);
}

std::byte* shared_memory() {
  return grid_here().shared();
}

int lane_id() {
  return static_cast<int>(threadIdx.x % kWarp);
}

void copy_later(void* target, const void* source, int n_valid, std::source_location where) {
  if (reinterpret_cast<uintptr_t>(target) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(source) % 16 != 0) {
    fail("cp.async of addresses that are not 16-byte aligned", where);
  }
  std::memset(target, kPoison, 16);
  grid_here().current().copies.back().push_back(
      {static_cast<std::byte*>(target), static_cast<const std::byte*>(source), n_valid});
}

void commit_copies() {
  grid_here().current().copies.emplace_back();
}

void wait_for_copies(size_t groups_left) {
  auto& groups = grid_here().current().copies;
  while (groups.size() > groups_left + 1) {
    for (const PendingCopy& copy : groups.front()) {
      const auto n = static_cast<size_t>(copy.n_valid);
      std::memcpy(copy.target, copy.source, n);
      std::memset(copy.target + n, 0, 16 - n);
    }
    groups.erase(groups.begin());
  }
}

void meet(uint32_t mask, const char* op, const void* in, size_t in_bytes, void* out,
          size_t out_bytes, void (*combine)(Lanes&), std::source_location where) {
  grid_here().meet(mask, op, in, in_bytes, out, out_bytes, combine, where);
}

}  // namespace hs::cuda_emu
