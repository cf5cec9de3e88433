#include "cuda_emu/fake_runtime.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "cuda_emu/fake_machine.h"

namespace hs::cuda_emu {

DeviceSpec rtx_4090(size_t memory_bytes, int pci_bus) {
  return {.name = "NVIDIA GeForce RTX 4090",
          .compute_major = 8,
          .compute_minor = 9,
          .n_multiprocessors = 128,
          .memory_bytes = memory_bytes,
          .shared_bytes_max = size_t{99} << 10,
          .pci_bus = pci_bus};
}

DeviceSpec a100(size_t memory_bytes, int pci_bus) {
  return {.name = "NVIDIA A100-SXM4-80GB",
          .compute_major = 8,
          .compute_minor = 0,
          .n_multiprocessors = 108,
          .memory_bytes = memory_bytes,
          .shared_bytes_max = size_t{163} << 10,
          .pci_bus = pci_bus};
}

DeviceSpec h100(size_t memory_bytes, int pci_bus) {
  return {.name = "NVIDIA H100 80GB HBM3",
          .compute_major = 9,
          .compute_minor = 0,
          .n_multiprocessors = 132,
          .memory_bytes = memory_bytes,
          .shared_bytes_max = size_t{227} << 10,
          .pci_bus = pci_bus};
}

FakeMachine::FakeMachine(MachineSpec spec) : machine_(std::make_unique<Machine>(std::move(spec))) {}

FakeMachine::~FakeMachine() = default;

void FakeMachine::fail_call(std::string_view function, int nth, cudaError_t error) {
  const std::lock_guard lock(machine_->mutex());
  machine_->fail_call(function, nth, error);
}

void FakeMachine::fail_operation(int device, int nth, cudaError_t error) {
  const std::lock_guard lock(machine_->mutex());
  HS_CHECK(is_sticky(error));
  Device& d = machine_->devices().at(static_cast<size_t>(device));
  d.failures.emplace_back(d.n_operations + static_cast<uint64_t>(nth), error);
}

void FakeMachine::set_peer(int from, int to, Peer peer) {
  const std::lock_guard lock(machine_->mutex());
  machine_->devices().at(static_cast<size_t>(from)).peers.at(static_cast<size_t>(to)) = peer;
}

std::string FakeMachine::failed_call() const {
  const std::lock_guard lock(machine_->mutex());
  return machine_->failed_call();
}

uint64_t FakeMachine::calls(std::string_view function) const {
  const std::lock_guard lock(machine_->mutex());
  return machine_->calls(std::string(function));
}

Counters FakeMachine::counters() const {
  const std::lock_guard lock(machine_->mutex());
  return machine_->counters();
}

std::vector<std::string> FakeMachine::reports() const {
  const std::lock_guard lock(machine_->mutex());
  return machine_->reports();
}

std::vector<std::string> FakeMachine::leaks() const {
  const std::lock_guard lock(machine_->mutex());
  return machine_->leaks();
}

bool FakeMachine::has_pending_work(int device) const {
  const std::lock_guard lock(machine_->mutex());
  return machine_->executor().has_work(device);
}

void FakeMachine::peek(void* to, const void* device_memory, size_t bytes) const {
  const std::lock_guard lock(machine_->mutex());
  HS_CHECK(machine_->place(device_memory, bytes).kind == Place::kDevice);
  std::memcpy(to, machine_->view(device_memory), bytes);
}

uint64_t FakeMachine::seed() const {
  return machine_->spec().seed;
}

}  // namespace hs::cuda_emu
