#include "cuda_emu/fake_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cuda_emu/fake_graph.h"

namespace hs::cuda_emu {
namespace {

std::atomic<Machine*> living = nullptr;
std::atomic<uint64_t> n_made = 0;

}  // namespace

Machine* machine() {
  return living.load();
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  const Machine* m = machine();
  if (m != nullptr && state.generation != m->generation()) {
    state = {};
    state.generation = m->generation();
  }
  return state;
}

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Machine::Machine(MachineSpec spec)
    : spec_(std::move(spec)),
      generation_(++n_made),
      executor_(spec_.order, spec_.seed, [this](Operation& o) { perform(o); }) {
  for (const DeviceSpec& device : spec_.devices) {
    const int number = static_cast<int>(devices_.size());
    devices_.push_back({.spec = device,
                        .memory = DeviceMemory(device.memory_bytes),
                        .default_stream = std::make_shared<Stream>(),
                        .peers = std::vector<Peer>(spec_.devices.size(), spec_.peer),
                        .has_access = std::vector<bool>(spec_.devices.size(), false)});
    Stream& stream = *devices_.back().default_stream;
    stream.device = number;
    stream.number = static_cast<uint64_t>(number);
    stream.is_default = true;
  }
  Machine* none = nullptr;
  HS_CHECK(living.compare_exchange_strong(none, this));
  set_fault_describer([](const void* p) {
    Machine* m = machine();
    return m == nullptr ? std::string() : m->describe(p);
  });
}

Machine::~Machine() {
  for (size_t i = n_reports_read_; i < reports_.size(); ++i) {
    fmt::print(stderr, "fake CUDA runtime, seed {}: {}\n", spec_.seed, reports_[i]);
  }
  set_fault_describer(nullptr);
  living = nullptr;
}

int Machine::current() const {
  return thread_state().device;
}

cudaError_t Machine::call(const char* name, Needs needs, const std::function<cudaError_t()>& body) {
  ThreadState& self = thread_state();
  if (self.in_host_function) {
    report(fmt::format("{} is called in a host function of a stream", name));
    return self.last_error = cudaErrorNotPermitted;
  }
  const std::lock_guard lock(mutex_);
  ++counters_.calls;
  ++calls_[name];
  if (needs == Needs::kNothing) return body();
  const cudaError_t error = [&] {
    if (const cudaError_t e = injected(name); e != cudaSuccess) return e;
    if (spec_.driver_version / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
    if (devices_.empty()) return cudaErrorNoDevice;
    if (needs == Needs::kDriver) return body();
    executor_.run_some();
    // Opening and closing costs as much as a small kernel.
    constexpr uint64_t kCallsOpen = 8;
    if (executor_.order() != Order::kEager && executor_.draw(kCallsOpen) == 0) close_memory();
    if (state_of(current()) != cudaSuccess) return state_of(current());
    if (needs == Needs::kNoCapture) {
      if (const cudaError_t e = check_captures(); e != cudaSuccess) return e;
    }
    return body();
  }();
  if (error != cudaSuccess) self.last_error = error;
  return error;
}

cudaError_t Machine::injected(const char* name) {
  for (auto failure = failures_.begin(); failure != failures_.end(); ++failure) {
    if (!failure->function.empty() && failure->function != name) continue;
    if (--failure->calls_left > 0) continue;
    const cudaError_t error = failure->error;
    failures_.erase(failure);
    failed_call_ = name;
    if (is_sticky(error) && !devices_.empty()) lose(current_device(), error);
    return error;
  }
  return cudaSuccess;
}

StreamPtr Machine::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return current_device().default_stream;
  StreamPtr found = streams_.get(handle);
  if (found == nullptr) report("a stream that does not exist, or no more, is used");
  return found;
}

EventPtr Machine::event(cudaEvent_t handle) {
  EventPtr found = events_.get(handle);
  if (found == nullptr) report("an event that does not exist, or no more, is used");
  return found;
}

cudaError_t Machine::submit(Stream& stream, Work work, OperationPtr* operation) {
  return submit(stream, std::move(work), {}, operation);
}

cudaError_t Machine::submit_after(Stream& stream, std::vector<OperationPtr> others,
                                  OperationPtr* operation) {
  return submit(stream, {.what = "wait"}, std::move(others), operation);
}

cudaError_t Machine::submit(Stream& stream, Work work, std::vector<OperationPtr> after,
                            OperationPtr* operation) {
  if (const cudaError_t e = state_of(stream.device); e != cudaSuccess) return e;
  if (!spec_.runs_kernels && work.type == cudaGraphNodeTypeKernel) work.start = work.run = nullptr;
  if (stream.capture != nullptr) return add_to_capture(stream, std::move(work));
  if (const cudaError_t e = check_implicit(stream); e != cudaSuccess) return e;
  auto op = std::make_shared<Operation>();
  op->what = std::move(work.what);
  op->device = stream.device;
  op->stream = stream.number;
  op->start = std::move(work.start);
  op->run = std::move(work.run);
  after.push_back(stream.last);
  Device& device = devices_[static_cast<size_t>(stream.device)];
  if (stream.is_default) {
    for (const auto& [_, other] : streams_.all()) {
      if (other->device == stream.device && other->blocking) after.push_back(other->last);
    }
  } else if (stream.blocking) {
    after.push_back(device.default_stream->last);
  }
  stream.last = op;
  executor_.add(op, after);
  if (operation != nullptr) *operation = op;
  return cudaSuccess;
}

OperationPtr Machine::last_of(Stream& stream) {
  if (!stream.is_default) return stream.last;
  OperationPtr last;
  submit_after(stream, {}, &last);
  return last;
}

cudaError_t Machine::ask(int device, const OperationPtr& operation) {
  executor_.poll(operation);
  close_memory();
  if (state_of(device) != cudaSuccess) return state_of(device);
  return operation == nullptr || operation->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t Machine::wait(int device, const OperationPtr& operation) {
  executor_.run_until(operation);
  close_memory();
  return state_of(device);
}

void Machine::perform(Operation& operation) {
  Device& device = devices_[static_cast<size_t>(operation.device)];
  if (device.lost != cudaSuccess) return;
  ++counters_.operations;
  ++device.n_operations;
  for (const auto& [number, error] : device.failures) {
    if (number == device.n_operations) return lose(device, error);
  }
  if (!operation.run) return;
  try {
    operation.run();
  } catch (const Fault& fault) {
    report(fmt::format("device {}, stream {}, {}: {}", operation.device, operation.stream,
                       operation.what, fault.what()));
    lose(device, fault.error());
  }
}

// What was being captured there is over, too: it disturbs nobody any more.
void Machine::lose(Device& device, cudaError_t error) {
  if (device.lost != cudaSuccess) return;
  device.lost = error;
  const auto index = static_cast<int>(&device - devices_.data());
  std::erase_if(captures_, [index](const std::shared_ptr<Capture>& capture) {
    if (capture->graph.device != index) return false;
    capture->ended = capture->invalid = true;
    for (const StreamPtr& stream : capture->streams) stream->capture = nullptr;
    return true;
  });
}

void Machine::open_memory_for(int device) {
  if (open_for_ == device) return;
  close_memory();
  open_for_ = device;
  Device& d = devices_[static_cast<size_t>(device)];
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (static_cast<int>(i) == device || d.has_access[i]) devices_[i].memory.open();
  }
}

void Machine::close_memory() {
  if (std::exchange(open_for_, -1) == -1) return;
  for (Device& device : devices_) device.memory.close();
}

Place Machine::place(const void* p, size_t bytes) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    const DeviceMemory& memory = devices_[i].memory;
    if (!memory.contains(p)) continue;
    const int device = static_cast<int>(i);
    if (memory.blocks().holding(p, bytes) != nullptr) return {Place::kDevice, device};
    return {Place::kBad, device};
  }
  const Block* block = pinned_.blocks().before(p);
  if (block == nullptr || reinterpret_cast<uintptr_t>(p) >= block->begin + block->bytes) {
    return {Place::kPageable, -1};
  }
  return {pinned_.blocks().holding(p, bytes) != nullptr ? Place::kPinned : Place::kBad, -1};
}

std::byte* Machine::view(const void* p) {
  for (const Device& device : devices_) {
    if (device.memory.contains(p)) return device.memory.view(p);
  }
  return static_cast<std::byte*>(const_cast<void*>(p));
}

std::string Machine::describe(const void* p) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i].memory.contains(p)) continue;
    return devices_[i].memory.blocks().describe(p, fmt::format("device {}", i));
  }
  const Block* block = pinned_.blocks().before(p);
  constexpr size_t kNear = 4096;
  if (block != nullptr && reinterpret_cast<uintptr_t>(p) < block->begin + block->bytes + kNear) {
    return pinned_.blocks().describe(p, "pinned host memory");
  }
  return fmt::format("{}: {}", p, is_mapped(p) ? "host memory that is not pinned" : "nowhere");
}

void Machine::report(std::string text) {
  reports_.push_back(std::move(text));
}

const std::vector<std::string>& Machine::reports() {
  n_reports_read_ = reports_.size();
  return reports_;
}

void Machine::fail_call(std::string_view function, int nth, cudaError_t error) {
  failures_.push_back({std::string(function), nth, error});
}

uint64_t Machine::calls(const std::string& function) const {
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<std::string> Machine::leaks() const {
  std::vector<std::string> found;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].lost != cudaSuccess) continue;
    const auto id = static_cast<int>(i);
    for (const auto& [_, block] : devices_[i].memory.blocks().all()) {
      if (!block.live) continue;
      found.push_back(
          fmt::format("device {}: allocation {} of {} bytes", i, block.number, block.bytes));
    }
    const auto on_device = [id](const auto& entry) { return entry.second->device == id; };
    const auto add = [&](auto n, const char* what) {
      if (n > 0) found.push_back(fmt::format("device {}: {} {}", i, n, what));
    };
    add(std::count_if(streams_.all().begin(), streams_.all().end(), on_device), "streams");
    add(std::count_if(events_.all().begin(), events_.all().end(), on_device), "events");
    add(std::count_if(graphs_.all().begin(), graphs_.all().end(), on_device), "graphs");
    add(std::count_if(graph_execs_.all().begin(), graph_execs_.all().end(), on_device),
        "executable graphs");
  }
  const bool any_lost = std::any_of(devices_.begin(), devices_.end(),
                                    [](const Device& d) { return d.lost != cudaSuccess; });
  for (const auto& [_, block] : pinned_.blocks().all()) {
    if (block.live && !any_lost) {
      found.push_back(fmt::format("pinned host memory: {} bytes", block.bytes));
    }
  }
  if (n_blas_objects_ > 0) {
    found.push_back(fmt::format("cuBLASLt: {} handles or descriptors", n_blas_objects_));
  }
  return found;
}

}  // namespace hs::cuda_emu
