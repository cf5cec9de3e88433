// A CUDA runtime for tests: src/device/cuda and the kernels run on it, on the CPU, with no GPU.
//
// While a FakeMachine lives, the functions of cuda_runtime_api.h act on its devices; while none
// does, they answer cudaErrorNoDevice and launch() runs a kernel at once on the caller's memory.
//
// Work runs inside the API calls, one operation after another, under one lock; any host thread may
// call. Streams and events alone order it: whatever the API leaves open is drawn from the seed. So
// a missing event, a missing synchronisation before the host reads, memory reused too early show as
// poison (0xFF: NaN) or old data in some seed. Copies have two steps, between which their target is
// poison and other streams go on.
//
// Every device has addresses of its own, closed to other devices' kernels, and to the host whenever
// it has waited for something; freed addresses are never used again. What is done wrong is in
// reports(); what of it no test asked for is printed with the seed when the machine goes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_emu/emulator.h"

namespace hs::cuda_emu {

// One row of the device table.
struct DeviceSpec {
  std::string name;
  int compute_major = 8;
  int compute_minor = 0;
  int n_multiprocessors = 108;
  size_t memory_bytes = 0;  // what cudaMalloc can give out in all
  size_t shared_bytes_max = size_t{163} << 10;
  int pci_bus = 1;
};
// Real cards but for their memory, which is the computer's.
DeviceSpec rtx_4090(size_t memory_bytes = size_t{256} << 20, int pci_bus = 0x41);
DeviceSpec a100(size_t memory_bytes = size_t{512} << 20, int pci_bus = 0xC1);
DeviceSpec h100(size_t memory_bytes = size_t{512} << 20, int pci_bus = 0xE1);

// When work runs that nothing has asked for yet.
enum class Order {
  kEager,    // as soon as it may: inside the call that enqueues it
  kLazy,     // when a synchronisation needs it, and nothing more than it needs
  kShuffled  // some of it in any call; how much, and which streams first, is drawn from the seed
};

// Direct access from one device to another's memory.
enum class Peer {
  kNone,  // cudaDeviceCanAccessPeer says no; peer copies are staged by the driver: data may be late
  kYes,
  kLies,          // says yes, but what a peer copy brings is zeros, or nothing
  kLiesUnderLoad  // so only while another stream of either device has work
};

struct MachineSpec {
  std::vector<DeviceSpec> devices;
  uint64_t seed = 1;
  Order order = Order::kShuffled;
  Peer peer = Peer::kNone;
  int driver_version = 13000;                // 0: no driver
  Schedule schedule = Schedule::kAscending;  // of the threads in each block
  bool runs_kernels = true;  // false: kernels do nothing, so that what is left is the host's work
};

// What happened since the machine was made.
struct Counters {
  uint64_t calls = 0;
  uint64_t launches = 0;    // kernels put into streams; those in graphs count when captured
  uint64_t operations = 0;  // operations that ran
  uint64_t pageable_async_copies = 0;  // asynchronous copies that were not: host memory not pinned
  uint64_t driver_staged_copies = 0;   // peer copies without peer access
  uint64_t allocations = 0;            // of device memory
  uint64_t graph_launches = 0;
};

class Machine;

// One at a time. Made before and destroyed after all host threads that call the runtime.
class FakeMachine {
 public:
  explicit FakeMachine(MachineSpec spec);
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
  ~FakeMachine();

  // The nth call (1: the next) of `function` from now fails with `error`, having done nothing; an
  // empty name counts all functions that can fail. Kernel launches are "cudaLaunchKernel". An error
  // that is sticky in CUDA loses the current device.
  void fail_call(std::string_view function, int nth, cudaError_t error);
  // The function whose call failed so last; empty: none did.
  std::string failed_call() const;
  // The nth operation that runs on the device from now fails instead: the error appears in
  // whichever call comes next, as with a kernel that crashes, and the device is lost.
  void fail_operation(int device, int nth, cudaError_t error);
  // For one direction.
  void set_peer(int from, int to, Peer peer);

  uint64_t calls(std::string_view function) const;
  Counters counters() const;
  // What the host or a kernel did wrong, one line each, in order.
  std::vector<std::string> reports() const;
  // Device memory, pinned memory, streams, events and graphs that were not given back; nothing of
  // devices that are lost.
  std::vector<std::string> leaks() const;
  // Whether the device has work that did not run yet.
  bool has_pending_work(int device) const;
  // What is in device memory now, whoever works on it.
  void peek(void* to, const void* device_memory, size_t bytes) const;
  uint64_t seed() const;

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace hs::cuda_emu
