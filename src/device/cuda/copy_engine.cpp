#include "device/cuda/copy_engine.h"

#include <algorithm>
#include <utility>

#include "device/cuda/memory.h"
#include "kernels/checksum_cuda.h"

namespace hs::cuda {
namespace {

constexpr size_t kRangesMax = 4096;  // of one launch
constexpr size_t kPartsMax = 128;
constexpr uint64_t kWordsOfPart = 4096;  // that a block is worth starting for
constexpr size_t kTableBytes = kRangesMax * sizeof(ChecksumRange);
constexpr size_t kPartBytes = kPartsMax * sizeof(ChecksumPart);

}  // namespace

Result<std::unique_ptr<CopyEngine>> CopyEngine::create(Context& context) {
  std::unique_ptr<CopyEngine> engine(new CopyEngine(context));
  Result<Stream> stream = Stream::create(context, Stream::Priority::kUrgent);
  if (!stream) return std::unexpected(std::move(stream.error()));
  engine->stream_ = std::move(*stream);
  Result<Buffer> host = allocate_pinned(context, kTableBytes + kPartBytes);
  if (!host) return std::unexpected(std::move(host.error()));
  engine->host_ = std::move(*host);
  Result<Buffer> device = allocate_device(context, kTableBytes + kPartBytes, engine->stream_.get());
  if (!device) return std::unexpected(std::move(device.error()));
  engine->device_ = std::move(*device);
  return engine;
}

Status CopyEngine::copy(std::span<const CopyRun> runs, cudaMemcpyKind kind) {
  const std::lock_guard lock(mutex_);
  HS_TRY(context_.use());
  for (const CopyRun& run : runs) {
    if (run.bytes == 0) continue;
    HS_CUDA_TRY(context_, cudaMemcpyAsync(run.to, run.from, run.bytes, kind, stream_.get()));
  }
  return HS_CUDA(context_, cudaStreamSynchronize(stream_.get()));
}

Status CopyEngine::read(std::span<const CopyRun> runs) {
  return copy(runs, cudaMemcpyDeviceToHost);
}

Status CopyEngine::write(std::span<const CopyRun> runs) {
  return copy(runs, cudaMemcpyHostToDevice);
}

Status CopyEngine::copy_from(int source, std::span<const CopyRun> runs) {
  if (source == context_.index()) return copy(runs, cudaMemcpyDeviceToDevice);
  const std::lock_guard lock(mutex_);
  HS_TRY(context_.use());
  for (const CopyRun& run : runs) {
    if (run.bytes == 0) continue;
    HS_CUDA_TRY(context_, cudaMemcpyPeerAsync(run.to, context_.index(), run.from, source, run.bytes,
                                              stream_.get()));
  }
  return HS_CUDA(context_, cudaStreamSynchronize(stream_.get()));
}

Result<MemoryCheck> CopyEngine::check(std::span<const MemoryRange> ranges, DType dtype) {
  const std::lock_guard lock(mutex_);
  HS_TRY(context_.use());
  MemoryCheck result;
  auto* const table = host_.as<ChecksumRange>();
  uint64_t n_words = 0;
  for (size_t at = 0; at < ranges.size();) {
    int32_t n = 0;
    const uint64_t first = n_words;
    for (; at < ranges.size() && n < static_cast<int32_t>(kRangesMax); ++at) {
      if (ranges[at].bytes == 0) continue;
      table[n++] = {ranges[at].data, ranges[at].bytes, n_words};
      n_words += (ranges[at].bytes + 7) / 8;
    }
    if (n > 0) HS_TRY(check_some(n, n_words - first, dtype, result));
  }
  return result;
}

// The ranges that stand in the table.
Status CopyEngine::check_some(int32_t n_ranges, uint64_t n_words, DType dtype,
                              MemoryCheck& result) {
  const auto n_parts =
      static_cast<int32_t>(std::clamp<uint64_t>(n_words / kWordsOfPart, 1, kPartsMax));
  auto* const device_parts = reinterpret_cast<ChecksumPart*>(device_.as<std::byte>() + kTableBytes);
  auto* const parts = reinterpret_cast<ChecksumPart*>(host_.as<std::byte>() + kTableBytes);
  const cudaStream_t stream = stream_.get();
  HS_CUDA_TRY(context_, cudaMemcpyAsync(device_.data(), host_.data(),
                                        static_cast<size_t>(n_ranges) * sizeof(ChecksumRange),
                                        cudaMemcpyHostToDevice, stream));
  HS_CUDA_TRY(context_, checksum({.ranges = device_.as<const ChecksumRange>(),
                                  .n_ranges = n_ranges,
                                  .n_words = n_words,
                                  .dtype = dtype,
                                  .parts = device_parts,
                                  .n_parts = n_parts},
                                 stream));
  HS_CUDA_TRY(context_, cudaMemcpyAsync(parts, device_parts,
                                        static_cast<size_t>(n_parts) * sizeof(ChecksumPart),
                                        cudaMemcpyDeviceToHost, stream));
  HS_CUDA_TRY(context_, cudaStreamSynchronize(stream));
  for (int32_t i = 0; i < n_parts; ++i) {
    result.checksum += parts[i].sum;
    result.finite = result.finite && parts[i].not_finite == 0;
  }
  return {};
}

}  // namespace hs::cuda
