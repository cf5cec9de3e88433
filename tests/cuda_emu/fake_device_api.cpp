// The fake CUDA runtime: devices, errors, peer access, launches.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cuda_emu/fake_machine.h"

namespace hs::cuda_emu {
namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

// The runtime's own words.
constexpr ErrorText kErrorTexts[] = {
#define HS_ERROR(error, text) {error, #error, text}
    HS_ERROR(cudaSuccess, "no error"),
    HS_ERROR(cudaErrorInvalidValue, "invalid argument"),
    HS_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    HS_ERROR(cudaErrorInitializationError, "initialization error"),
    HS_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    HS_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    HS_ERROR(cudaErrorInsufficientDriver,
             "CUDA driver version is insufficient for CUDA runtime version"),
    HS_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    HS_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    HS_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    HS_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    HS_ERROR(cudaErrorNoKernelImageForDevice,
             "no kernel image is available for execution on the device"),
    HS_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    HS_ERROR(cudaErrorNvlinkUncorrectable,
             "uncorrectable NVLink error detected during the execution"),
    HS_ERROR(cudaErrorPeerAccessUnsupported,
             "peer access is not supported between these two devices"),
    HS_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    HS_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    HS_ERROR(cudaErrorHostMemoryAlreadyRegistered,
             "part or all of the requested memory range is already mapped"),
    HS_ERROR(cudaErrorHostMemoryNotRegistered,
             "pointer does not correspond to a registered memory region"),
    HS_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    HS_ERROR(cudaErrorNotReady, "device not ready"),
    HS_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    HS_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    HS_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    HS_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    HS_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    HS_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    HS_ERROR(cudaErrorInvalidAddressSpace,
             "operation not supported on global/shared address space"),
    HS_ERROR(cudaErrorInvalidPc, "invalid program counter"),
    HS_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    HS_ERROR(cudaErrorAssert, "device-side assert triggered"),
    HS_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    HS_ERROR(cudaErrorNotSupported, "operation not supported"),
    HS_ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    HS_ERROR(cudaErrorSystemDriverMismatch,
             "system has unsupported display driver / cuda driver combination"),
    HS_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    HS_ERROR(cudaErrorStreamCaptureInvalidated,
             "operation failed due to a previous error during capture"),
    HS_ERROR(cudaErrorStreamCaptureMerge,
             "operation would result in a merge of separate capture sequences"),
    HS_ERROR(cudaErrorStreamCaptureUnmatched,
             "capture was not ended in the same stream as it began"),
    HS_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    HS_ERROR(cudaErrorStreamCaptureIsolation,
             "dependency created on uncaptured work in another stream"),
    HS_ERROR(cudaErrorStreamCaptureImplicit,
             "operation would make the legacy stream depend on a capturing blocking stream"),
    HS_ERROR(cudaErrorCapturedEvent,
             "operation not permitted on an event last recorded in a capturing stream"),
    HS_ERROR(cudaErrorStreamCaptureWrongThread,
             "attempt to terminate a thread-local capture sequence from another thread"),
    HS_ERROR(cudaErrorGraphExecUpdateFailure,
             "the graph update was not performed because it included changes which violated "
             "constraints specific to instantiated graph update"),
    HS_ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    HS_ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    HS_ERROR(cudaErrorUnsupportedPtxVersion,
             "the provided PTX was compiled with an unsupported toolchain."),
    HS_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    HS_ERROR(cudaErrorContextIsDestroyed, "context is destroyed"),
    HS_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    HS_ERROR(cudaErrorExternalDevice,
             "an async error has occurred in external entity outside of "
             "CUDA. Continuing."),
    HS_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    HS_ERROR(cudaErrorUnknown, "unknown error"),
#undef HS_ERROR
};

const ErrorText* text_of(cudaError_t error) {
  const auto* found = std::find_if(std::begin(kErrorTexts), std::end(kErrorTexts),
                                   [error](const ErrorText& t) { return t.error == error; });
  return found == std::end(kErrorTexts) ? nullptr : found;
}

// What cudaGetLastError() says on this thread: a lost device goes before everything.
cudaError_t last_error(const Machine& m) {
  if (!m.spec().devices.empty()) {
    const cudaError_t lost = m.state_of(m.current());
    if (lost != cudaSuccess) return lost;
  }
  return thread_state().last_error;
}

bool is_device(Machine& m, int device) {
  return device >= 0 && static_cast<size_t>(device) < m.devices().size();
}

constexpr size_t kSharedWithoutAsking = size_t{48} << 10;
constexpr int kRegisters = 65536, kThreadsPerMultiprocessor = 1536;
constexpr int kReservedShared = 1024;

std::string pci_id(const DeviceSpec& spec) {
  return fmt::format("0000:{:02X}:00.0", spec.pci_bus);
}

cudaError_t attribute_of(const DeviceSpec& spec, cudaDeviceAttr attribute, int* value) {
  const auto shared_max = static_cast<int>(spec.shared_bytes_max);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = kBlockThreadsMax;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedWithoutAsking;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = shared_max;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = shared_max + kReservedShared;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = kReservedShared;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = spec.n_multiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kThreadsPerMultiprocessor;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = kRegisters;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = spec.compute_major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = spec.compute_minor;
      break;
    case cudaDevAttrPciBusId:
      *value = spec.pci_bus;
      break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrKernelExecTimeout:
      *value = 0;
      break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrHostRegisterSupported:
      *value = 1;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = 2;
      break;
    case cudaDevAttrL2CacheSize:
      *value = 40 << 20;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = 1'593'000;
      break;
    case cudaDevAttrClockRate:
      *value = 1'410'000;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 5120;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

void fill(const DeviceSpec& spec, cudaDeviceProp* properties) {
  *properties = {};
  std::strncpy(properties->name, spec.name.c_str(), sizeof properties->name - 1);
  for (size_t i = 0; i < sizeof properties->uuid.bytes; ++i) {
    properties->uuid.bytes[i] = static_cast<char>(spec.pci_bus + static_cast<int>(i));
  }
  properties->totalGlobalMem = spec.memory_bytes;
  properties->sharedMemPerBlock = kSharedWithoutAsking;
  properties->sharedMemPerBlockOptin = spec.shared_bytes_max;
  properties->sharedMemPerMultiprocessor = spec.shared_bytes_max + kReservedShared;
  properties->reservedSharedMemPerBlock = kReservedShared;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegisters;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = kBlockThreadsMax;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->major = spec.compute_major;
  properties->minor = spec.compute_minor;
  properties->multiProcessorCount = spec.n_multiprocessors;
  properties->concurrentKernels = 1;
  properties->canMapHostMemory = 1;
  properties->unifiedAddressing = 1;
  properties->asyncEngineCount = 2;
  properties->streamPrioritiesSupported = 1;
  properties->pciBusID = spec.pci_bus;
  properties->memoryBusWidth = 5120;
  properties->l2CacheSize = 40 << 20;
}

// What a kernel's arguments say before it runs: emulated kernels can reach the host's memory, real
// ones cannot. Numbers may look like addresses, hence: only what the process has mapped.
std::string host_memory_in(Machine& m, std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(arguments[i].at);
    for (size_t at = 0; at + sizeof(uintptr_t) <= arguments[i].bytes; at += sizeof(uintptr_t)) {
      uintptr_t word = 0;
      std::memcpy(&word, bytes + at, sizeof word);
      constexpr uintptr_t kLowest = uintptr_t{1} << 32, kHighest = uintptr_t{1} << 47;
      if (word < kLowest || word >= kHighest) continue;
      const auto* p = reinterpret_cast<const void*>(word);
      if (m.place(p, 0).kind == Place::kPageable && is_mapped(p)) {
        return fmt::format("byte {} of argument {} points to the host: {}", at, i, m.describe(p));
      }
    }
  }
  return {};
}

}  // namespace

cudaError_t launch_on(cudaStream_t stream, const void* entry, dim3 grid, dim3 block,
                      size_t shared_bytes, std::span<const Argument> arguments,
                      std::function<void()> body) {
  if (machine() == nullptr) {
    launch(grid, block, shared_bytes, body);
    return cudaSuccess;
  }
  return api("cudaLaunchKernel", Needs::kContext, [&](Machine& m) {
    const StreamPtr s = m.stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (s->device != m.current()) {
      m.report(fmt::format("device {} is current, a kernel is launched into a stream of device {}",
                           m.current(), s->device));
      return cudaErrorInvalidResourceHandle;
    }
    if (const std::string fault = shape_fault(grid, block, shared_bytes); !fault.empty()) {
      m.report(fault);
      return cudaErrorInvalidConfiguration;
    }
    Device& device = m.current_device();
    const auto asked = device.shared_bytes_max.find(entry);
    const size_t allowed =
        asked == device.shared_bytes_max.end() ? kSharedWithoutAsking : asked->second;
    if (shared_bytes > allowed) return cudaErrorInvalidValue;
    ++m.counters().launches;
    Work work{.what = fmt::format("kernel {} of {} x {} threads", entry, grid.x * grid.y * grid.z,
                                  block.x),
              .type = cudaGraphNodeTypeKernel,
              .entry = entry};
    std::string fault = host_memory_in(m, arguments);
    work.run = [&m, grid, block, shared_bytes, device_id = s->device, fault = std::move(fault),
                body = std::move(body)] {
      if (!fault.empty()) throw Fault(fault, cudaErrorIllegalAddress);
      m.open_memory_for(device_id);
      set_schedule(m.spec().schedule, m.spec().seed);
      launch(grid, block, shared_bytes, body);
    };
    return m.submit(*s, std::move(work));
  });
}

cudaError_t set_kernel_attribute(const void* entry, cudaFuncAttribute attribute, int value) {
  if (machine() == nullptr) return cudaSuccess;
  return cudaFuncSetAttribute(entry, attribute, value);
}

}  // namespace hs::cuda_emu

using hs::cuda_emu::api;
using hs::cuda_emu::Device;
using hs::cuda_emu::Machine;
using hs::cuda_emu::Needs;
using hs::cuda_emu::Peer;
using hs::cuda_emu::thread_state;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const auto* text = hs::cuda_emu::text_of(error);
  return text == nullptr ? "unrecognized error code" : text->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* text = hs::cuda_emu::text_of(error);
  return text == nullptr ? "unrecognized error code" : text->text;
}

cudaError_t cudaGetLastError() {
  return api("cudaGetLastError", Needs::kNothing, [](Machine& m) {
    const cudaError_t error = hs::cuda_emu::last_error(m);
    thread_state().last_error = cudaSuccess;
    return error;
  });
}

cudaError_t cudaPeekAtLastError() {
  return api("cudaPeekAtLastError", Needs::kNothing,
             [](Machine& m) { return hs::cuda_emu::last_error(m); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return api("cudaDriverGetVersion", Needs::kNothing, [&](Machine& m) {
    *version = m.spec().driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return api("cudaGetDeviceCount", Needs::kDriver, [&](Machine& m) {
    *count = static_cast<int>(m.devices().size());
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api("cudaSetDevice", Needs::kDriver, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, device)) return cudaErrorInvalidDevice;
    thread_state().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api("cudaGetDevice", Needs::kDriver, [&](Machine& m) {
    *device = m.current();
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return api("cudaInitDevice", Needs::kDriver, [&](Machine& m) {
    return hs::cuda_emu::is_device(m, device) ? m.state_of(device) : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned) {
  return api("cudaSetDeviceFlags", Needs::kDriver, [](Machine&) { return cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api("cudaGetDeviceProperties", Needs::kDriver, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, device)) return cudaErrorInvalidDevice;
    hs::cuda_emu::fill(m.devices()[static_cast<size_t>(device)].spec, properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api("cudaDeviceGetAttribute", Needs::kDriver, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, device)) return cudaErrorInvalidDevice;
    const auto& spec = m.devices()[static_cast<size_t>(device)].spec;
    return hs::cuda_emu::attribute_of(spec, attribute, value);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return api("cudaDeviceGetPCIBusId", Needs::kDriver, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, device)) return cudaErrorInvalidDevice;
    const std::string id = hs::cuda_emu::pci_id(m.devices()[static_cast<size_t>(device)].spec);
    if (bytes <= static_cast<int>(id.size())) return cudaErrorInvalidValue;
    std::memcpy(text, id.c_str(), id.size() + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return api("cudaDeviceGetByPCIBusId", Needs::kDriver, [&](Machine& m) {
    for (size_t i = 0; i < m.devices().size(); ++i) {
      if (hs::cuda_emu::pci_id(m.devices()[i].spec) != text) continue;
      *device = static_cast<int>(i);
      return cudaSuccess;
    }
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api("cudaDeviceGetStreamPriorityRange", Needs::kContext, [&](Machine&) {
    constexpr int kGreatest = -5;
    *least = 0;
    *greatest = kGreatest;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api("cudaDeviceCanAccessPeer", Needs::kDriver, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, device) || !hs::cuda_emu::is_device(m, peer)) {
      return cudaErrorInvalidDevice;
    }
    const Device& d = m.devices()[static_cast<size_t>(device)];
    *can = device != peer && d.peers[static_cast<size_t>(peer)] != Peer::kNone;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api("cudaDeviceEnablePeerAccess", Needs::kContext, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, peer) || peer == m.current()) return cudaErrorInvalidDevice;
    if (flags != 0) return cudaErrorInvalidValue;
    const auto i = static_cast<size_t>(peer);
    Device& d = m.current_device();
    if (d.peers[i] == Peer::kNone) return cudaErrorPeerAccessUnsupported;
    if (d.has_access[i]) return cudaErrorPeerAccessAlreadyEnabled;
    m.close_memory();
    d.has_access[i] = true;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api("cudaDeviceDisablePeerAccess", Needs::kContext, [&](Machine& m) {
    if (!hs::cuda_emu::is_device(m, peer)) return cudaErrorInvalidDevice;
    const auto i = static_cast<size_t>(peer);
    if (!m.current_device().has_access[i]) return cudaErrorPeerAccessNotEnabled;
    m.close_memory();
    m.current_device().has_access[i] = false;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* entry, cudaFuncAttribute attribute, int value) {
  return api("cudaFuncSetAttribute", Needs::kContext, [&](Machine& m) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    Device& device = m.current_device();
    if (value < 0 || static_cast<size_t>(value) > device.spec.shared_bytes_max) {
      return cudaErrorInvalidValue;
    }
    device.shared_bytes_max[entry] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}

}  // extern "C"
