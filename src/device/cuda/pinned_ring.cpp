#include "device/cuda/pinned_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hs::cuda {

Result<UploadRing> UploadRing::create(Context& context, cudaStream_t stream) {
  UploadRing ring(context, stream);
  Result<Buffer> memory = allocate_pinned(context, kChunkBytes * kChunks);
  if (!memory) return std::unexpected(std::move(memory.error()));
  ring.memory_ = std::move(*memory);
  for (size_t i = 0; i < kChunks; ++i) {
    Result<Event> event = Event::create(context);
    if (!event) return std::unexpected(std::move(event.error()));
    ring.sent_.push_back(std::move(*event));
  }
  return ring;
}

Status UploadRing::upload(const void* host, void* device, size_t bytes) {
  return upload_made(device, bytes, [host](std::byte* to, size_t first, size_t n) {
    std::memcpy(to, static_cast<const std::byte*>(host) + first, n);
  });
}

Status UploadRing::upload_made(void* device, size_t bytes,
                               FunctionRef<void(std::byte* to, size_t first, size_t n)> fill) {
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(kChunkBytes, bytes - done);
    std::byte* const chunk = memory_.as<std::byte>() + next_ * kChunkBytes;
    const cudaEvent_t sent = sent_[next_].get();
    HS_CUDA_TRY(*context_, cudaEventSynchronize(sent));
    fill(chunk, done, n);
    HS_CUDA_TRY(*context_, cudaMemcpyAsync(static_cast<std::byte*>(device) + done, chunk, n,
                                           cudaMemcpyHostToDevice, stream_));
    HS_CUDA_TRY(*context_, cudaEventRecord(sent, stream_));
    next_ = (next_ + 1) % kChunks;
    done += n;
  }
  return {};
}

Result<DownloadArea> DownloadArea::create(Context& context, cudaStream_t stream) {
  DownloadArea area(context, stream);
  Result<Buffer> memory = allocate_pinned(context, kBytes);
  if (!memory) return std::unexpected(std::move(memory.error()));
  area.memory_ = std::move(*memory);
  return area;
}

Status DownloadArea::download(const void* device, void* host, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    if (used_ == kBytes) HS_TRY(finish());
    const size_t n = std::min(kBytes - used_, bytes - done);
    std::byte* const chunk = memory_.as<std::byte>() + used_;
    HS_CUDA_TRY(*context_, cudaMemcpyAsync(chunk, static_cast<const std::byte*>(device) + done, n,
                                           cudaMemcpyDeviceToHost, stream_));
    pending_.push_back({chunk, static_cast<std::byte*>(host) + done, n});
    constexpr size_t kAlignment = 64;
    used_ = std::min(kBytes, (used_ + n + kAlignment - 1) / kAlignment * kAlignment);
    done += n;
  }
  return {};
}

// After a failure nothing more is written to the hosts' memory.
Status DownloadArea::finish() {
  Status arrived = HS_CUDA(*context_, cudaStreamSynchronize(stream_));
  if (arrived) {
    for (const Pending& piece : pending_) std::memcpy(piece.to, piece.from, piece.bytes);
  }
  pending_.clear();
  used_ = 0;
  return arrived;
}

}  // namespace hs::cuda
