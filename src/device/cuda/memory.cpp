#include "device/cuda/memory.h"

#include <fmt/format.h>

#include <cstring>

namespace hs::cuda {
namespace {

// Also for memory of a device that is lost: then there is nothing left to free.
void free_device(void* data, size_t) {
  if (cudaFree(data) != cudaSuccess) cudaGetLastError();
}

void free_pinned(void* data, size_t) {
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

DeviceId id_of(const Context& context) {
  return {DeviceId::Kind::kCuda, context.index()};
}

Error no_room(const Context& context, Error error, size_t bytes) {
  size_t free = 0;
  size_t total = 0;
  if (error.kind == ErrorKind::kResourceExhausted && cudaMemGetInfo(&free, &total) == cudaSuccess) {
    error.message = fmt::format("cuda:{} has no room for {} MiB more: {} of {} MiB are free",
                                context.index(), bytes >> 20, free >> 20, total >> 20);
  }
  return error;
}

}  // namespace

Result<Buffer> allocate_device(Context& context, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return Buffer(id_of(context), nullptr, 0, free_device);
  HS_TRY(context.use());
  void* data = nullptr;
  if (Status allocated = HS_CUDA(context, cudaMalloc(&data, bytes)); !allocated) {
    return std::unexpected(no_room(context, std::move(allocated.error()), bytes));
  }
  Buffer buffer(id_of(context), data, bytes, free_device);
  HS_CUDA_TRY(context, cudaMemsetAsync(data, 0, bytes, stream));
  HS_CUDA_TRY(context, cudaStreamSynchronize(stream));
  return buffer;
}

Result<Buffer> allocate_pinned(Context& context, size_t bytes) {
  if (bytes == 0) return Buffer(id_of(context), nullptr, 0, free_pinned);
  HS_TRY(context.use());
  void* data = nullptr;
  HS_CUDA_TRY(context, cudaHostAlloc(&data, bytes, cudaHostAllocPortable));
  std::memset(data, 0, bytes);
  return Buffer(id_of(context), data, bytes, free_pinned);
}

}  // namespace hs::cuda
