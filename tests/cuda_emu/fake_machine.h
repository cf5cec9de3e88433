// The state behind FakeMachine, for the files that implement the API functions.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda_emu/fake_executor.h"
#include "cuda_emu/fake_memory.h"
#include "cuda_emu/fake_runtime.h"

namespace hs::cuda_emu {

// What a stream is given to do. The functions may run more than once: from a graph.
struct Work {
  std::string what;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::function<void()> start = nullptr;
  std::function<void()> run = nullptr;
  const void* entry = nullptr;  // of a kernel
};

struct Capture;
struct Graph;
struct GraphExec;
struct BlasObjects;

struct Stream {
  uint64_t number = 0;
  int device = 0;
  bool blocking = true;  // ordered against the default stream
  bool is_default = false;
  int priority = 0;
  OperationPtr last;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> tail;  // nodes of the capture that the next one comes after
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  int device = 0;
  bool timing = true;
  OperationPtr record;               // the latest, or null
  std::shared_ptr<Capture> capture;  // instead, when it was recorded in one
  std::vector<size_t> nodes;
};
using EventPtr = std::shared_ptr<Event>;

// Handles that are never used twice and point nowhere.
template <typename Handle, typename T>
class Handles {
 public:
  Handle add(std::shared_ptr<T> object) {
    const uintptr_t value = (uintptr_t{0xCDA0} << 48) + (++n_made_ << 4);
    objects_[value] = std::move(object);
    return reinterpret_cast<Handle>(value);
  }
  std::shared_ptr<T> get(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  bool remove(Handle handle) { return objects_.erase(reinterpret_cast<uintptr_t>(handle)) > 0; }
  const std::map<uintptr_t, std::shared_ptr<T>>& all() const { return objects_; }

 private:
  std::map<uintptr_t, std::shared_ptr<T>> objects_;
  uint64_t n_made_ = 0;
};

struct Device {
  DeviceSpec spec;
  DeviceMemory memory;
  cudaError_t lost = cudaSuccess;
  StreamPtr default_stream;
  std::vector<Peer> peers;                              // towards each device
  std::vector<bool> has_access;                         // cudaDeviceEnablePeerAccess was called
  std::map<const void*, size_t> shared_bytes_max = {};  // of kernels, by cudaFuncSetAttribute
  uint64_t n_operations = 0;
  std::vector<std::pair<uint64_t, cudaError_t>> failures = {};  // of operations, by their number
};

// Where a pointer leads.
struct Place {
  enum Kind { kDevice, kPinned, kPageable, kBad } kind = kBad;
  int device = -1;
};

// What a function needs, and where it is allowed.
enum class Needs {
  kNothing,   // answers whatever happened
  kDriver,    // a driver and a device; answers on a lost device too
  kContext,   // the current device, not lost; gives other work a chance to run
  kNoCapture  // that, and no capture that it might disturb
};

class Machine {
 public:
  explicit Machine(MachineSpec spec);
  ~Machine();

  // One call of an API function.
  cudaError_t call(const char* name, Needs needs, const std::function<cudaError_t()>& body);

  std::vector<Device>& devices() { return devices_; }
  int current() const;
  Device& current_device() { return devices_[static_cast<size_t>(current())]; }
  // Null if there is no such stream. A null handle is the current device's default stream.
  StreamPtr stream(cudaStream_t handle);
  EventPtr event(cudaEvent_t handle);
  Handles<cudaStream_t, Stream>& streams() { return streams_; }
  Handles<cudaEvent_t, Event>& events() { return events_; }
  PinnedMemory& pinned() { return pinned_; }
  Executor& executor() { return executor_; }
  Counters& counters() { return counters_; }
  const MachineSpec& spec() const { return spec_; }

  // Puts work at the end of a stream. Null while the stream is captured, and on errors.
  cudaError_t submit(Stream& stream, Work work, OperationPtr* operation = nullptr);
  // An operation without work that comes after the stream's and others.
  cudaError_t submit_after(Stream& stream, std::vector<OperationPtr> others,
                           OperationPtr* operation = nullptr);
  // What has to be done before all of the stream's work is.
  OperationPtr last_of(Stream& stream);
  // cudaErrorNotReady, or the error of the device if the operation is done.
  cudaError_t ask(int device, const OperationPtr& operation);
  // Ends when the operation is done; the error of the stream's device.
  cudaError_t wait(int device, const OperationPtr& operation);
  cudaError_t state_of(int device) const { return devices_[static_cast<size_t>(device)].lost; }

  // Captures. An event that is recorded in one, or waited for by one, orders nodes of the graph.
  cudaError_t begin_capture(const StreamPtr& stream, cudaStreamCaptureMode mode);
  cudaError_t end_capture(const StreamPtr& stream, std::shared_ptr<Graph>* graph);
  cudaError_t record_captured(Event& event, Stream& stream);
  cudaError_t wait_captured(const StreamPtr& stream, const Event& event);
  // For what a capture cannot take: ends it without a graph.
  cudaError_t refuse_in_capture(Capture& capture);
  cudaError_t refuse_captured_event(Event& event);
  Handles<cudaGraph_t, Graph>& graphs() { return graphs_; }
  Handles<cudaGraphExec_t, GraphExec>& graph_execs() { return graph_execs_; }
  Handles<cudaGraphNode_t, cudaGraphNodeType>& graph_nodes() { return graph_nodes_; }

  Place place(const void* p, size_t bytes);
  // Where the runtime itself reads or writes what is at a device or host address.
  std::byte* view(const void* p);
  std::string describe(const void* p);
  // For the kernels of one device; closed when the host has waited, and now and then.
  void open_memory_for(int device);
  void close_memory();
  void report(std::string text);

  void fail_call(std::string_view function, int nth, cudaError_t error);
  const std::string& failed_call() const { return failed_call_; }
  uint64_t calls(const std::string& function) const;
  const std::vector<std::string>& reports();
  std::vector<std::string> leaks() const;
  std::mutex& mutex() { return mutex_; }
  std::shared_ptr<BlasObjects>& blas() { return blas_; }
  int64_t& n_blas_objects() { return n_blas_objects_; }
  uint64_t generation() const { return generation_; }
  uint64_t next_stream_number() { return devices_.size() + n_streams_++; }

 private:
  struct Failure {
    std::string function;
    int calls_left;
    cudaError_t error;
  };

  cudaError_t injected(const char* name);
  cudaError_t submit(Stream& stream, Work work, std::vector<OperationPtr> after,
                     OperationPtr* operation);
  cudaError_t add_to_capture(Stream& stream, Work work);
  cudaError_t check_captures();  // for a call that none may be disturbed by
  cudaError_t check_implicit(const Stream& stream);
  void perform(Operation& operation);
  void lose(Device& device, cudaError_t error);

  MachineSpec spec_;
  uint64_t generation_;
  std::mutex mutex_;
  std::vector<Device> devices_;
  PinnedMemory pinned_;
  Handles<cudaStream_t, Stream> streams_;
  Handles<cudaEvent_t, Event> events_;
  Handles<cudaGraph_t, Graph> graphs_;
  Handles<cudaGraphExec_t, GraphExec> graph_execs_;
  Handles<cudaGraphNode_t, cudaGraphNodeType> graph_nodes_;
  std::vector<std::shared_ptr<Capture>> captures_;  // that have not ended
  std::shared_ptr<BlasObjects> blas_;
  int64_t n_blas_objects_ = 0;
  uint64_t n_streams_ = 0;
  Executor executor_;
  int open_for_ = -1;
  Counters counters_;
  std::unordered_map<std::string, uint64_t> calls_;
  std::vector<Failure> failures_;
  std::string failed_call_;
  std::vector<std::string> reports_;
  size_t n_reports_read_ = 0;
};

// Errors that stay: the device is lost to the process.
bool is_sticky(cudaError_t error);

// The machine that lives, or null.
Machine* machine();

// The body of an API function: body(Machine&) -> cudaError_t.
template <typename Body>
cudaError_t api(const char* name, Needs needs, const Body& body) {
  Machine* m = machine();
  if (m == nullptr) return cudaErrorNoDevice;
  return m->call(name, needs, [&] { return body(*m); });
}

// What a host thread has of its own.
struct ThreadState {
  uint64_t generation = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  bool in_host_function = false;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
ThreadState& thread_state();

}  // namespace hs::cuda_emu
