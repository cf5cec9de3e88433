#include "app/calibrate_device.h"

#include <algorithm>

#include "base/check.h"

namespace hs {

Status CalibrationDevice::prepare(int64_t n_blocks) {
  n_blocks_ = n_blocks;
  if (Status allocated = language().allocate_kv(n_blocks); !allocated) return allocated;
  const KvView kv = language().kv();
  const size_t bytes = kv.layout.block_bytes() * static_cast<size_t>(kv.n_blocks);
  // 0x3c3c is 0.0115 in bfloat16, 0x3c3c3c3c the same in float32.
  const std::vector<std::byte> small(bytes, std::byte{0x3c});
  for (int32_t layer = 0; layer < kv.n_layers; ++layer) {
    auto* to = static_cast<std::byte*>(kv.data) + bytes * static_cast<size_t>(layer);
    if (Status written = device_.write(small.data(), to, bytes); !written) return written;
  }
  return {};
}

// Every sequence has blocks of its own, as far as there are; then they begin again.
void CalibrationDevice::make_step(const MeasuredStep& what) {
  const int32_t end = what.n_before + what.n_tokens;
  const int32_t size = options_.block_size;
  const int32_t per_seq = (end + size - 1) / size;
  const int64_t n_tokens = int64_t{what.n_seqs} * what.n_tokens;
  const int32_t vocab = model_.spec.vocab_size;
  step_ = {};
  step_.block_table_stride = per_seq;
  step_.cu_query.push_back(0);
  for (int32_t seq = 0; seq < what.n_seqs; ++seq) {
    const int64_t first_block = int64_t{seq} * per_seq;
    const auto block_of = [&](int32_t i) {
      return static_cast<int32_t>((first_block + i) % n_blocks_);
    };
    for (int32_t i = 0; i < per_seq; ++i) step_.block_tables.push_back(block_of(i));
    for (int32_t i = what.n_before; i < end; ++i) {
      step_.token_ids.push_back((7 * i + 31 * seq) % vocab);
      step_.slots.push_back(int64_t{block_of(i / size)} * size + i % size);
    }
    const auto row = static_cast<int32_t>(step_.token_ids.size());
    step_.cu_query.push_back(row);
    step_.context_lens.push_back(end);
    if (!what.sampled) continue;
    step_.sample_rows.push_back(row - 1);
    step_.sampling.push_back({.temperature = 0});
  }
  for (int32_t axis = 0; axis < model_.spec.n_position_axes; ++axis) {
    for (int64_t i = 0; i < n_tokens; ++i) {
      step_.positions.push_back(what.n_before + static_cast<int32_t>(i % what.n_tokens));
    }
  }
  sampled_.resize(step_.sample_rows.size());
}

Status CalibrationDevice::step(const MeasuredStep& what) {
  make_step(what);
  return language().step(step_, sampled_);
}

Status CalibrationDevice::encode(int32_t n_pictures,
                                 const std::shared_ptr<const ImagePatches>& picture) {
  VisionModel& tower = *model_.towers[index_];
  const int32_t n_rows = tower.tokens_of(*picture);
  const int64_t all_rows = int64_t{n_pictures} * n_rows;
  const int32_t dim = model_.spec.tower_dim();
  const DType dtype = device_.activation_dtype();
  const size_t bytes = static_cast<size_t>(all_rows * dim) * dtype_bytes(dtype);
  if (tower_ == nullptr) {
    auto made = TowerOutput::create(tower, device_, {.dim = dim, .max_encode_rows = 1});
    if (!made) return std::unexpected(made.error());
    tower_ = std::move(*made);
  }
  if (rows_.bytes() < bytes) {
    auto made = device_.allocate(bytes);
    if (!made) return std::unexpected(made.error());
    rows_ = std::move(*made);
  }
  EncodeOrder order;
  order.n_rows = all_rows;
  order.items.assign(static_cast<size_t>(n_pictures), {.n_rows = n_rows});
  const std::vector<std::shared_ptr<const ImagePatches>> pictures(static_cast<size_t>(n_pictures),
                                                                  picture);
  std::vector<ImageOutcome> outcomes(order.items.size());
  const Matrix out{
      .data = rows_.data(), .dtype = dtype, .rows = all_rows, .cols = dim, .stride = dim};
  return tower_->encode(order, pictures, out, outcomes);
}

}  // namespace hs
