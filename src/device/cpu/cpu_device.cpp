#include "device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/log.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/host_memory.h"
#include "device/cpu/weight_arena.h"
#include "device/host_device.h"
#include "kernels/isa.h"

namespace hs {
namespace {

class CpuDevice final : public HostDevice {
 public:
  CpuDevice(int index, int64_t rows_max, const CpuTeamOptions& options)
      : id_{DeviceId::Kind::kCpu, index},
        rows_max_(rows_max),
        cores_(options.cores),
        team_(options),
        ops_(team_) {}

  DeviceId id() const override { return id_; }
  std::string description() const override {
    return fmt::format("{}: {} thread{}{}, {} kernels", to_string(id_), team_.size(),
                       team_.size() == 1 ? "" : "s", cores_text(), isa_name(cpu_isa()));
  }
  DType activation_dtype() const override { return DType::kF32; }
  Ops& ops() override { return ops_; }

  Result<Buffer> allocate(size_t bytes) override;
  Result<OwnedWeight> pack_weight(std::span<const WeightPart> parts, int64_t in_dim,
                                  DType dtype) override;
  void attach_thread() override {
    if (!cores_.empty() && !pin_this_thread(cores_.front()))
      log_warning("the thread of {} cannot be pinned to core {}; it runs unpinned", to_string(id_),
                  cores_.front());
  }

 private:
  std::unexpected<Error> no_room(size_t bytes) const {
    return fail(ErrorKind::kResourceExhausted,
                fmt::format("{} has no room for {} MiB more", to_string(id_), bytes >> 20));
  }
  std::string cores_text() const {
    if (cores_.empty()) return "";
    return fmt::format(" on core{} {}", cores_.size() == 1 ? "" : "s", fmt::join(cores_, ","));
  }

  DeviceId id_;
  int64_t rows_max_;
  std::vector<int> cores_;  // pinned to; empty: not pinned
  WeightArena weights_;
  CpuTeam team_;
  CpuOps ops_;
};

Result<Buffer> CpuDevice::allocate(size_t bytes) {
  if (bytes == 0) return Buffer(id_, nullptr, 0, free_host_memory);
  void* data = allocate_host_memory(bytes);
  if (data == nullptr) return no_room(bytes);
  return Buffer(id_, data, bytes, free_host_memory);
}

Result<OwnedWeight> CpuDevice::pack_weight(std::span<const WeightPart> parts, int64_t in_dim,
                                           DType dtype) {
  HS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  HS_CHECK_GT(in_dim, 0);
  int64_t out_dim = 0;
  for (const WeightPart& part : parts) out_dim += part.n_rows;
  HS_CHECK_GT(out_dim, 0);
  const size_t bytes = packed_weight_bytes(dtype, out_dim, in_dim);
  Buffer buffer = weights_.allocate(id_, bytes);
  if (buffer.data() == nullptr) return no_room(bytes);
  int64_t first_row = 0;
  for (const WeightPart& part : parts) {
    pack_weight_rows_cpu(buffer.data(), dtype, out_dim, in_dim, first_row, part.n_rows, part.data,
                         part.dtype, team_);
    first_row += part.n_rows;
  }
  OwnedWeight owned{.buffer = std::move(buffer), .packed = {}};
  owned.packed = {
      .dtype = dtype, .out_dim = out_dim, .in_dim = in_dim, .data = owned.buffer.data()};
  const CpuScratchBytes scratch = cpu_scratch_bytes(out_dim, in_dim, rows_max_);
  team_.reserve_scratch(scratch.first, scratch.other);
  return owned;
}

}  // namespace

CpuScratchBytes cpu_scratch_bytes(int64_t out_dim, int64_t in_dim, int64_t n_rows) {
  // The rows as the product's kernels copy them: float32, padded to whole chunks and tiles.
  constexpr int64_t kChunk = 1024;
  constexpr int64_t kTile = 32;
  const int64_t packed = (n_rows + kTile) * (in_dim + kChunk) * static_cast<int64_t>(sizeof(float));
  // A worker's own sums and attention tiles, or the four arrays of sampling.
  constexpr int64_t kFixed = 512 << 10;
  constexpr int64_t kPerLogit = 24;
  const int64_t other = kFixed + out_dim * kPerLogit;
  return {static_cast<size_t>(packed + other), static_cast<size_t>(other)};
}

Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options) {
  const std::vector<int> mine = process_cores();
  for (size_t i = 0; i < options.cores.size(); ++i) {
    const int core = options.cores[i];
    if (std::find(mine.begin(), mine.end(), core) == mine.end()) {
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("core {} is not one this process may run on", core), {}, "cores");
    }
    if (std::find(options.cores.begin(), options.cores.begin() + static_cast<std::ptrdiff_t>(i),
                  core) != options.cores.begin() + static_cast<std::ptrdiff_t>(i)) {
      return fail(ErrorKind::kInvalidArgument, fmt::format("core {} is given twice", core), {},
                  "cores");
    }
  }
  constexpr int kThreadsMax = 1024;
  if (options.threads < 0 || options.threads > kThreadsMax) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("threads must be 0 to {}, not {}", kThreadsMax, options.threads), {},
                "threads");
  }
  const size_t cores = options.cores.empty() ? mine.size() : options.cores.size();
  const int threads = options.threads > 0 ? options.threads
                                          : static_cast<int>(std::min<size_t>(cores, kThreadsMax));
  return std::make_unique<CpuDevice>(
      options.index, options.rows_max,
      CpuTeamOptions{.threads = threads,
                     .cores = options.cores,
                     .name = fmt::format("hs-cpu{}", options.index)});
}

}  // namespace hs
