#include "engine/tower_output.h"

#include "base/check.h"

namespace hs {

Result<std::unique_ptr<TowerOutput>> TowerOutput::create(VisionModel& tower, Device& device,
                                                         const Options& options) {
  std::unique_ptr<TowerOutput> output(new TowerOutput(tower, device, options));
  if (options.n_buffers == 0) return output;
  Result<Buffer> memory = device.allocate(
      static_cast<size_t>(options.n_buffers) * static_cast<size_t>(options.max_encode_rows) *
      static_cast<size_t>(options.dim) * dtype_bytes(output->dtype_));
  if (!memory) return std::unexpected(memory.error());
  output->memory_ = std::move(*memory);
  return output;
}

Matrix TowerOutput::rows(int32_t buffer, int64_t first, int64_t n) const {
  HS_CHECK_GE(buffer, 0);
  HS_CHECK_LT(buffer, options_.n_buffers);
  HS_CHECK_LE(first + n, options_.max_encode_rows);
  const Matrix all{.data = const_cast<void*>(memory_.data()),
                   .dtype = dtype_,
                   .rows = options_.n_buffers * options_.max_encode_rows,
                   .cols = options_.dim,
                   .stride = options_.dim};
  return all.row_range(buffer * options_.max_encode_rows + first, n);
}

Status TowerOutput::encode(const EncodeOrder& order,
                           std::span<const std::shared_ptr<const ImagePatches>> images, Matrix out,
                           std::span<ImageOutcome> outcomes) {
  HS_CHECK_EQ(images.size(), order.items.size());
  HS_CHECK_EQ(outcomes.size(), order.items.size());
  HS_CHECK_EQ(out.rows, order.n_rows);
  std::vector<const ImagePatches*> pointers;
  for (size_t i = 0; i < images.size(); ++i) {
    HS_CHECK_EQ(tower_.tokens_of(*images[i]), order.items[i].n_rows);
    pointers.push_back(images[i].get());
  }
  if (Status status = tower_.encode(pointers, out); !status) return status;
  if (Status status = device_.sync(); !status) return status;

  const size_t row_bytes = static_cast<size_t>(out.cols) * dtype_bytes(dtype_);
  int64_t row = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const int64_t n = order.items[i].n_rows;
    const Result<MemoryCheck> seen =
        device_.check(out.row_range(row, n).data, static_cast<size_t>(n) * row_bytes, dtype_);
    if (!seen) return std::unexpected(seen.error());
    outcomes[i] = seen->finite ? ImageOutcome::kOk : ImageOutcome::kFailed;
    row += n;
  }
  return {};
}

}  // namespace hs
