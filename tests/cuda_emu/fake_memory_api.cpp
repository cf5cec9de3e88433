// The fake CUDA runtime: memory and copies.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_emu/fake_graph.h"
#include "cuda_emu/memory.h"

namespace hs::cuda_emu {
namespace {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  Place to_place;
  Place from_place;
};

bool is_host(const Place& place) {
  return place.kind == Place::kPinned || place.kind == Place::kPageable;
}

bool overlap(const Copy& copy) {
  const auto to = reinterpret_cast<uintptr_t>(copy.to);
  const auto from = reinterpret_cast<uintptr_t>(copy.from);
  return to < from + copy.bytes && from < to + copy.bytes;
}

// An operation finds its memory as it was when it was enqueued, or the device is lost.
void check_again(Machine& m, const void* p, size_t bytes, const Place& place) {
  if (place.kind == Place::kPageable) return;
  if (m.place(p, bytes).kind != place.kind) {
    throw Fault("copy of memory that was freed meanwhile: " + m.describe(p),
                cudaErrorIllegalAddress);
  }
}

// What arrives at the other device.
enum class Arrival { kRight, kZeros, kNothing };

Work copy_work(Machine& m, const Copy& copy, std::shared_ptr<std::vector<std::byte>> staged,
               Arrival arrival = Arrival::kRight) {
  Work work{.what = fmt::format("copy of {} bytes", copy.bytes), .type = cudaGraphNodeTypeMemcpy};
  if (arrival != Arrival::kNothing && !overlap(copy)) {
    work.start = [&m, copy] {
      if (m.place(copy.to, copy.bytes).kind == copy.to_place.kind) {
        std::memset(m.view(copy.to), kPoison, copy.bytes);
      }
    };
  }
  work.run = [&m, copy, staged = std::move(staged), arrival] {
    check_again(m, copy.to, copy.bytes, copy.to_place);
    if (staged == nullptr) check_again(m, copy.from, copy.bytes, copy.from_place);
    if (arrival == Arrival::kNothing) return;
    std::byte* to = m.view(copy.to);
    if (arrival == Arrival::kZeros) {
      std::memset(to, 0, copy.bytes);
    } else {
      std::memmove(to, staged == nullptr ? m.view(copy.from) : staged->data(), copy.bytes);
    }
  };
  return work;
}

// Whether the direction is what the pointers say.
bool kind_fits(cudaMemcpyKind kind, const Copy& copy) {
  const bool to_host = is_host(copy.to_place), from_host = is_host(copy.from_place);
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to_host && from_host;
    case cudaMemcpyHostToDevice:
      return !to_host && from_host;
    case cudaMemcpyDeviceToHost:
      return to_host && !from_host;
    case cudaMemcpyDeviceToDevice:
      return !to_host && !from_host;
    default:
      return kind == cudaMemcpyDefault;
  }
}

cudaError_t find_places(Machine& m, Copy& copy) {
  copy.to_place = m.place(copy.to, copy.bytes);
  copy.from_place = m.place(copy.from, copy.bytes);
  for (const auto& [p, place] :
       {std::pair<const void*, Place>{copy.to, copy.to_place}, {copy.from, copy.from_place}}) {
    if (place.kind != Place::kBad) continue;
    m.report(fmt::format("copy of {} bytes at {}", copy.bytes, m.describe(p)));
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

// Between devices. The devices say whether the target gets what it should; without peer access the
// driver stages, and what depends on the stream alone may run before the data is there.
cudaError_t copy_between(Machine& m, Stream& stream, const Copy& copy, OperationPtr* done) {
  const Device& from = m.devices()[static_cast<size_t>(copy.from_place.device)];
  const Peer peer = from.peers[static_cast<size_t>(copy.to_place.device)];
  if (stream.capture != nullptr) return m.refuse_in_capture(*stream.capture);
  if (peer == Peer::kLies || peer == Peer::kLiesUnderLoad) {
    Work work = copy_work(m, copy, nullptr,
                          m.executor().draw(2) == 0 ? Arrival::kZeros : Arrival::kNothing);
    if (peer == Peer::kLiesUnderLoad) {
      work.run = [&m, copy, number = stream.number, lie = std::move(work.run),
                  right = copy_work(m, copy, nullptr).run] {
        const bool load = m.executor().has_work_beside(copy.from_place.device, number) ||
                          m.executor().has_work_beside(copy.to_place.device, number);
        load ? lie() : right();
      };
    }
    return m.submit(stream, std::move(work), done);
  }
  if (peer == Peer::kYes) return m.submit(stream, copy_work(m, copy, nullptr), done);
  ++m.counters().driver_staged_copies;
  OperationPtr left;
  if (const cudaError_t e = m.submit(stream, {.what = "staged peer copy leaves"}, &left);
      e != cudaSuccess) {
    return e;
  }
  auto arrives = std::make_shared<Operation>();
  arrives->what = "staged peer copy arrives";
  arrives->device = stream.device;
  arrives->stream = stream.number;
  arrives->run = copy_work(m, copy, nullptr).run;
  m.executor().add(arrives, {left});
  if (done != nullptr) *done = arrives;
  return cudaSuccess;
}

cudaError_t copy_async(Machine& m, Stream& stream, Copy copy, cudaMemcpyKind kind,
                       bool host_waits) {
  if (copy.bytes == 0) return cudaSuccess;
  if (const cudaError_t e = find_places(m, copy); e != cudaSuccess) return e;
  if (!kind_fits(kind, copy)) {
    m.report(fmt::format("copy of {} bytes with the wrong direction: from {} to {}", copy.bytes,
                         m.describe(copy.from), m.describe(copy.to)));
    return cudaErrorInvalidValue;
  }
  OperationPtr done;
  const bool device_to_device = !is_host(copy.to_place) && !is_host(copy.from_place);
  if (device_to_device && copy.to_place.device != copy.from_place.device) {
    if (const cudaError_t e = copy_between(m, stream, copy, &done); e != cudaSuccess) return e;
    return host_waits ? m.wait(stream.device, done) : cudaSuccess;
  }
  const bool pageable =
      copy.to_place.kind == Place::kPageable || copy.from_place.kind == Place::kPageable;
  std::shared_ptr<std::vector<std::byte>> staged;
  if (pageable && !host_waits && stream.capture == nullptr) {
    // Documented: the source is copied aside before the call returns; what goes to pageable memory
    // is there when it returns.
    ++m.counters().pageable_async_copies;
    if (is_host(copy.from_place)) {
      const auto* from = static_cast<const std::byte*>(copy.from);
      staged = std::make_shared<std::vector<std::byte>>(from, from + copy.bytes);
    }
    host_waits = is_host(copy.to_place);
  }
  if (const cudaError_t e = m.submit(stream, copy_work(m, copy, std::move(staged)), &done);
      e != cudaSuccess) {
    return e;
  }
  // A copy within a device is not waited for, not even by cudaMemcpy.
  return host_waits && !device_to_device ? m.wait(stream.device, done) : cudaSuccess;
}

cudaError_t set_async(Machine& m, Stream& stream, void* to, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  const Place place = m.place(to, bytes);
  if (place.kind != Place::kDevice && place.kind != Place::kPinned) {
    m.report(fmt::format("memset of {} bytes at {}", bytes, m.describe(to)));
    return cudaErrorInvalidValue;
  }
  Work work{.what = fmt::format("memset of {} bytes", bytes), .type = cudaGraphNodeTypeMemset};
  work.run = [&m, to, value, bytes, place] {
    check_again(m, to, bytes, place);
    std::memset(m.view(to), value, bytes);
  };
  return m.submit(stream, std::move(work));
}

cudaError_t free_device(Machine& m, void* p) {
  if (p == nullptr) return cudaSuccess;
  m.close_memory();
  for (size_t i = 0; i < m.devices().size(); ++i) {
    DeviceMemory& memory = m.devices()[i].memory;
    if (!memory.contains(p)) continue;
    const std::string what = m.describe(p);
    bool intact = true;
    if (!memory.free(p, &intact)) break;
    if (!intact) m.report("something was written beside what is freed: " + what);
    return cudaSuccess;
  }
  m.report("cudaFree of " + m.describe(p));
  return cudaErrorInvalidValue;
}

cudaError_t allocate_pinned(const char* name, void** p, size_t bytes) {
  return api(name, Needs::kNoCapture, [&](Machine& m) {
    *p = bytes == 0 ? nullptr : m.pinned().allocate(bytes);
    return *p == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// What acts in the default stream, and may not while something is captured.
template <typename Body>
cudaError_t in_default_stream(const char* name, const Body& body) {
  return api(name, Needs::kNoCapture,
             [&](Machine& m) { return body(m, *m.current_device().default_stream); });
}

template <typename Body>
cudaError_t in_stream(const char* name, cudaStream_t stream, const Body& body) {
  return api(name, Needs::kContext, [&](Machine& m) {
    const StreamPtr s = m.stream(stream);
    return s == nullptr ? cudaErrorInvalidResourceHandle : body(m, *s);
  });
}

// Both ends of a peer copy are where the caller says.
cudaError_t peer_copy(Machine& m, Stream& stream, void* to, int to_device, const void* from,
                      int from_device, size_t bytes, bool host_waits) {
  const Place t = m.place(to, bytes), f = m.place(from, bytes);
  if (t.device != to_device || f.device != from_device) {
    m.report(fmt::format("peer copy from device {} to {}: from {} to {}", from_device, to_device,
                         m.describe(from), m.describe(to)));
    return cudaErrorInvalidValue;
  }
  return copy_async(m, stream, {to, from, bytes, {}, {}}, cudaMemcpyDeviceToDevice, host_waits);
}

}  // namespace
}  // namespace hs::cuda_emu

using hs::cuda_emu::api;
using hs::cuda_emu::Machine;
using hs::cuda_emu::Needs;
using hs::cuda_emu::Place;
using hs::cuda_emu::Stream;

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return api("cudaMalloc", Needs::kNoCapture, [&](Machine& m) {
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    m.close_memory();
    *p = m.current_device().memory.allocate(bytes);
    if (*p == nullptr) return cudaErrorMemoryAllocation;
    ++m.counters().allocations;
    return cudaSuccess;
  });
}

// Waits for nothing: the documentation does not promise it.
cudaError_t cudaFree(void* p) {
  return api("cudaFree", Needs::kNoCapture,
             [&](Machine& m) { return hs::cuda_emu::free_device(m, p); });
}

cudaError_t cudaMallocHost(void** p, size_t bytes) {
  return hs::cuda_emu::allocate_pinned("cudaMallocHost", p, bytes);
}

cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  return hs::cuda_emu::allocate_pinned("cudaHostAlloc", p, bytes);
}

cudaError_t cudaFreeHost(void* p) {
  return api("cudaFreeHost", Needs::kNoCapture, [&](Machine& m) {
    if (p == nullptr || m.pinned().free(p)) return cudaSuccess;
    m.report("cudaFreeHost of " + m.describe(p));
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  return api("cudaHostRegister", Needs::kNoCapture, [&](Machine& m) {
    if (p == nullptr || bytes == 0) return cudaErrorInvalidValue;
    return m.pinned().pin(p, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* p) {
  return api("cudaHostUnregister", Needs::kNoCapture, [&](Machine& m) {
    return m.pinned().unpin(p) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* p, unsigned) {
  return api("cudaHostGetDevicePointer", Needs::kContext, [&](Machine& m) {
    if (m.place(p, 1).kind != Place::kPinned) return cudaErrorInvalidValue;
    *device_pointer = p;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return api("cudaPointerGetAttributes", Needs::kContext, [&](Machine& m) {
    const Place place = m.place(p, 1);
    *attributes = {};
    attributes->device = place.kind == Place::kDevice ? place.device : m.current();
    if (place.kind == Place::kDevice) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = const_cast<void*>(p);
    } else if (place.kind == Place::kPinned) {
      attributes->type = cudaMemoryTypeHost;
      attributes->devicePointer = attributes->hostPointer = const_cast<void*>(p);
    } else {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return api("cudaMemGetInfo", Needs::kContext, [&](Machine& m) {
    const auto& memory = m.current_device().memory;
    *total_bytes = memory.limit_bytes();
    *free_bytes = memory.limit_bytes() - memory.used_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return hs::cuda_emu::in_default_stream("cudaMemcpy", [&](Machine& m, Stream& stream) {
    return hs::cuda_emu::copy_async(m, stream, {to, from, bytes, {}, {}}, kind, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return hs::cuda_emu::in_stream("cudaMemcpyAsync", stream, [&](Machine& m, Stream& s) {
    return hs::cuda_emu::copy_async(m, s, {to, from, bytes, {}, {}}, kind, false);
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
  return hs::cuda_emu::in_default_stream("cudaMemcpyPeer", [&](Machine& m, Stream& stream) {
    return hs::cuda_emu::peer_copy(m, stream, to, to_device, from, from_device, bytes, true);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  return hs::cuda_emu::in_stream("cudaMemcpyPeerAsync", stream, [&](Machine& m, Stream& s) {
    return hs::cuda_emu::peer_copy(m, s, to, to_device, from, from_device, bytes, false);
  });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return hs::cuda_emu::in_default_stream("cudaMemset", [&](Machine& m, Stream& stream) {
    return hs::cuda_emu::set_async(m, stream, to, value, bytes);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return hs::cuda_emu::in_stream("cudaMemsetAsync", stream, [&](Machine& m, Stream& s) {
    return hs::cuda_emu::set_async(m, s, to, value, bytes);
  });
}

}  // extern "C"
