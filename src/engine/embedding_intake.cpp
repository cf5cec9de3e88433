#include "engine/embedding_intake.h"

#include <utility>

#include "base/check.h"

namespace hs {

Result<std::unique_ptr<EmbeddingIntake>> EmbeddingIntake::create(Device& device,
                                                                 const Options& options) {
  auto memory = EmbeddingMemory::allocate(device, options.dim, options.n_rows);
  if (!memory) return std::unexpected(memory.error());
  std::unique_ptr<EmbeddingIntake> intake(new EmbeddingIntake(device, options, std::move(*memory)));
  if (options.projector == nullptr) return intake;
  Result<Buffer> features = device.allocate(static_cast<size_t>(options.max_arriving_rows) *
                                            static_cast<size_t>(options.feature_dim) *
                                            dtype_bytes(device.activation_dtype()));
  if (!features) return std::unexpected(features.error());
  intake->features_ = std::move(*features);
  return intake;
}

Matrix EmbeddingIntake::landing(int64_t slot_row, int64_t order_row, int64_t n) {
  if (options_.projector == nullptr) return memory_.rows(slot_row, n);
  HS_CHECK_LE(order_row + n, options_.max_arriving_rows);
  const Matrix all{.data = features_.data(),
                   .dtype = device_.activation_dtype(),
                   .rows = options_.max_arriving_rows,
                   .cols = options_.feature_dim,
                   .stride = options_.feature_dim};
  return all.row_range(order_row, n);
}

Result<ImageOutcome> EmbeddingIntake::accept(int64_t slot_row, int64_t order_row, int64_t n) {
  if (options_.projector == nullptr) return ImageOutcome::kOk;
  const Matrix embeddings = memory_.rows(slot_row, n);
  if (Status status = options_.projector->project(landing(slot_row, order_row, n), embeddings);
      !status) {
    return std::unexpected(status.error());
  }
  const Result<MemoryCheck> seen = device_.check(
      embeddings.data, static_cast<size_t>(n) * memory_.row_bytes(), embeddings.dtype);
  if (!seen) return std::unexpected(seen.error());
  return seen->finite ? ImageOutcome::kOk : ImageOutcome::kFailed;
}

}  // namespace hs
