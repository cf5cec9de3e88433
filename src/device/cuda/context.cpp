#include "device/cuda/context.h"

#include <fmt/format.h>

#include <utility>

namespace hs::cuda {
namespace {

// The call without its arguments, which say nothing to people.
std::string_view name_of(std::string_view call) {
  return call.substr(0, call.find('('));
}

std::string_view file_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

ErrorKind kind_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return ErrorKind::kResourceExhausted;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
      return ErrorKind::kUnsupported;
    default:
      return ErrorKind::kInternal;
  }
}

}  // namespace

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorNoDevice:
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status Context::use() {
  return HS_CUDA(*this, cudaSetDevice(index_));
}

std::unexpected<Error> Context::lost() const {
  const std::lock_guard lock(mutex_);
  return fail(ErrorKind::kUnavailable, why_lost_, "device_lost");
}

Status Context::check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) [[likely]]
    return {};
  cudaGetLastError();  // else the next launch would report it once more
  if (is_lost()) return lost();
  std::string text =
      fmt::format("cuda:{}: {}: {} ({}, {}:{})", index_, name_of(call), cudaGetErrorString(status),
                  cudaGetErrorName(status), file_of(file), line);
  if (!is_sticky(status)) return fail(kind_of(status), std::move(text));
  {
    const std::lock_guard lock(mutex_);
    if (why_lost_.empty()) why_lost_ = std::move(text);
  }
  is_lost_.store(true);
  return lost();
}

Status Context::check_text(bool ok, std::string_view text, const char* call, const char* file,
                           int line) {
  if (ok) [[likely]]
    return {};
  if (is_lost()) return lost();
  return fail(ErrorKind::kInternal, fmt::format("cuda:{}: {}: {} ({}:{})", index_, name_of(call),
                                                text, file_of(file), line));
}

void Context::defer(Status status) {
  if (status) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  if (!deferred_) deferred_ = std::move(status.error());
}

Status Context::take_deferred() {
  if (is_lost()) return lost();
  const std::lock_guard lock(mutex_);
  if (!deferred_) return {};
  return std::unexpected(*std::exchange(deferred_, std::nullopt));
}

}  // namespace hs::cuda
