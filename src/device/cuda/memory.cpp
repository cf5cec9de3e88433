#include "device/cuda/memory.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace hs::cuda {
namespace {

using Release = void (*)(void* data, size_t bytes);

// Whoever frees memory may have had another device in use, which may be lost: nothing works then.
// Also for memory of a device that is lost itself: then there is nothing left to free.
template <int kIndex>
void free_device(void* data, size_t) {
  cudaSetDevice(kIndex);
  if (cudaFree(data) != cudaSuccess) cudaGetLastError();
}
template <int kIndex>
void free_pinned(void* data, size_t) {
  cudaSetDevice(kIndex);
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

struct Releases {
  Release device;
  Release pinned;
};
template <int... kIndices>
constexpr auto releases_of(std::integer_sequence<int, kIndices...>) {
  return std::array<Releases, sizeof...(kIndices)>{
      {{free_device<kIndices>, free_pinned<kIndices>}...}};
}
constexpr int kDevicesMax = 64;  // of a machine
constexpr auto kReleases = releases_of(std::make_integer_sequence<int, kDevicesMax>());

const Releases& releases(const Context& context) {
  HS_CHECK_LT(context.index(), kDevicesMax);
  return kReleases[static_cast<size_t>(context.index())];
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
  const Release release = releases(context).device;
  if (bytes == 0) return Buffer(id_of(context), nullptr, 0, release);
  HS_TRY(context.use());
  void* data = nullptr;
  if (Status allocated = HS_CUDA(context, cudaMalloc(&data, bytes)); !allocated) {
    return std::unexpected(no_room(context, std::move(allocated.error()), bytes));
  }
  Buffer buffer(id_of(context), data, bytes, release);
  HS_CUDA_TRY(context, cudaMemsetAsync(data, 0, bytes, stream));
  HS_CUDA_TRY(context, cudaStreamSynchronize(stream));
  return buffer;
}

Result<Buffer> allocate_pinned(Context& context, size_t bytes) {
  const Release release = releases(context).pinned;
  if (bytes == 0) return Buffer(id_of(context), nullptr, 0, release);
  HS_TRY(context.use());
  void* data = nullptr;
  HS_CUDA_TRY(context, cudaHostAlloc(&data, bytes, cudaHostAllocPortable));
  std::memset(data, 0, bytes);
  return Buffer(id_of(context), data, bytes, release);
}

}  // namespace hs::cuda
