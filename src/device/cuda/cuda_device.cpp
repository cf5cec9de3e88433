#include "device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "device/cuda/convert.h"
#include "device/cuda/copy_engine.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/inventory.h"
#include "device/cuda/memory.h"
#include "device/cuda/step_graphs.h"

namespace hs::cuda {
namespace {

class CudaDevice final : public Device {
 public:
  using Device::check;
  using Device::copy_from;
  using Device::read;
  using Device::write;

  CudaDevice(const CudaDeviceOptions& options, std::string name)
      : options_(options), name_(std::move(name)), context_(options.index) {}

  Status open();

  DeviceId id() const override { return {DeviceId::Kind::kCuda, options_.index}; }
  std::string description() const override {
    return fmt::format("{}: {}, {}{}", to_string(id()), name_, dtype_name(options_.dtype),
                       options_.graphs ? "" : ", steps not recorded");
  }
  DType activation_dtype() const override { return options_.dtype; }
  Ops& ops() override { return *ops_; }

  Result<Buffer> allocate(size_t bytes) override {
    return allocate_device(context_, bytes, stream_.get());
  }
  Result<OwnedWeight> pack_weight(std::span<const WeightPart> parts, int64_t in_dim,
                                  DType dtype) override;
  void upload(const void* host, void* device, size_t bytes) override {
    if (make_current()) context_.defer(uploads_->upload(host, device, bytes));
  }
  void download(const void* device, void* host, size_t bytes) override {
    if (make_current()) context_.defer(downloads_->download(device, host, bytes));
  }
  Status sync() override;
  std::unique_ptr<StepRecorder> make_recorder() override {
    if (!options_.graphs) return nullptr;
    return std::make_unique<StepGraphs>(context_, stream_.get());
  }
  size_t free_bytes() override;
  void attach_thread() override { context_.defer(context_.use()); }

  Status read(std::span<const CopyRun> runs) override { return copies_->read(runs); }
  Status write(std::span<const CopyRun> runs) override { return copies_->write(runs); }
  bool reaches(const Device& other) const override;
  Status copy_from(const Device& other, std::span<const CopyRun> runs) override {
    HS_CHECK(reaches(other));
    return copies_->copy_from(other.id().index, runs);
  }
  Result<MemoryCheck> check(std::span<const MemoryRange> ranges, DType dtype) override {
    return copies_->check(ranges, dtype);
  }
  Result<Buffer> allocate_staging(size_t bytes) override {
    return allocate_pinned(context_, bytes);
  }

 private:
  bool make_current();
  bool enable_peer(int other) const;

  CudaDeviceOptions options_;
  std::string name_;
  mutable Context context_;
  Stream stream_;
  std::optional<UploadRing> uploads_;
  std::optional<DownloadArea> downloads_;
  std::unique_ptr<BlasLt> blas_;
  std::unique_ptr<CudaOps> ops_;
  std::unique_ptr<CopyEngine> copies_;
  mutable std::mutex peers_mutex_;
  mutable std::map<int, bool> peers_;  // whether this device reads the other's memory
};

// Moves a result to where it belongs.
template <typename T, typename To>
Status keep(Result<T> made, To& to) {
  if (!made) return std::unexpected(std::move(made.error()));
  to = std::move(*made);
  return {};
}

Status CudaDevice::open() {
  HS_TRY(context_.use());
  HS_TRY(keep(Stream::create(context_, Stream::Priority::kNormal), stream_));
  const cudaStream_t stream = stream_.get();
  HS_TRY(keep(UploadRing::create(context_, stream), uploads_));
  HS_TRY(keep(DownloadArea::create(context_, stream), downloads_));
  HS_TRY(keep(BlasLt::create(context_, stream), blas_));
  HS_TRY(keep(CopyEngine::create(context_), copies_));
  ops_ =
      std::make_unique<CudaOps>(context_, stream, options_.dtype, *blas_, *uploads_, *downloads_);
  return {};
}

bool CudaDevice::make_current() {
  if (context_.is_lost()) return false;
  Status used = context_.use();
  const bool ready = used.has_value();
  context_.defer(std::move(used));
  return ready;
}

// The checkpoint's layout and, whatever `dtype` asks, the device's format.
Result<OwnedWeight> CudaDevice::pack_weight(std::span<const WeightPart> parts, int64_t in_dim,
                                            DType dtype) {
  HS_CHECK_GT(in_dim, 0);
  if (dtype == DType::kF32) {
    return fail(ErrorKind::kUnsupported,
                fmt::format("{}: weights in float32 do not run on a GPU; use --dtype bfloat16",
                            to_string(id())));
  }
  int64_t out_dim = 0;
  for (const WeightPart& part : parts) out_dim += part.n_rows;
  HS_CHECK_GT(out_dim, 0);
  const size_t element = dtype_bytes(options_.dtype);
  Result<Buffer> buffer =
      allocate(static_cast<size_t>(out_dim) * static_cast<size_t>(in_dim) * element);
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  auto* to = buffer->as<std::byte>();
  for (const WeightPart& part : parts) {
    const size_t bytes = static_cast<size_t>(part.n_rows) * static_cast<size_t>(in_dim) * element;
    HS_TRY(uploads_->upload_made(to, bytes, [&](std::byte* chunk, size_t first, size_t n) {
      convert_numbers(part.data, part.dtype, first / element, n / element, chunk, options_.dtype);
    }));
    to += bytes;
  }
  OwnedWeight owned{.buffer = std::move(*buffer), .packed = {}};
  owned.packed = {
      .dtype = options_.dtype, .out_dim = out_dim, .in_dim = in_dim, .data = owned.buffer.data()};
  return owned;
}

Status CudaDevice::sync() {
  HS_TRY(context_.use());
  Status finished = downloads_->finish();
  if (Status deferred = context_.take_deferred(); !deferred) return deferred;
  return finished;
}

size_t CudaDevice::free_bytes() {
  size_t free = 0;
  size_t total = 0;
  if (!make_current() || !HS_CUDA(context_, cudaMemGetInfo(&free, &total))) return 0;
  return free;
}

bool CudaDevice::reaches(const Device& other) const {
  if (other.id().kind != DeviceId::Kind::kCuda) return false;
  if (other.id() == id()) return true;
  const std::lock_guard lock(peers_mutex_);
  const auto known = peers_.find(other.id().index);
  if (known != peers_.end()) return known->second;
  return peers_[other.id().index] = enable_peer(other.id().index);
}

// Enabled once and for ever: switching it while copies run is not safe.
bool CudaDevice::enable_peer(int other) const {
  int can = 0;
  if (context_.is_lost() || !context_.use() ||
      !HS_CUDA(context_, cudaDeviceCanAccessPeer(&can, options_.index, other)) || can == 0) {
    return false;
  }
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return true;
  }
  return HS_CUDA(context_, status).has_value();
}

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options) {
  HS_CHECK(options.dtype == DType::kBF16 || options.dtype == DType::kF16);
  const Result<std::vector<DeviceInfo>> devices = list_devices();
  if (!devices) return std::unexpected(devices.error());
  for (const DeviceInfo& info : *devices) {
    if (info.id.index != options.index) continue;
    auto device = std::make_unique<CudaDevice>(options, info.name);
    if (Status opened = device->open(); !opened) return std::unexpected(std::move(opened.error()));
    return device;
  }
  return fail(ErrorKind::kNotFound, fmt::format("cuda:{}: no such GPU", options.index));
}

}  // namespace hs::cuda
