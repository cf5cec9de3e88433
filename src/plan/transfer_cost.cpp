#include "plan/transfer_cost.h"

#include <algorithm>

#include "base/check.h"

namespace hs {

CutBytes cut_bytes(const ModelShape& shape, int64_t n_rows, int64_t n_tokens, int32_t value_bytes) {
  const VisionShape& vision = shape.vision;
  CutBytes bytes;
  const int64_t side = int64_t{vision.patch_size} * vision.patch_size;
  bytes.pixels = vision.image_size > 0 && n_rows == vision.fixed_rows
                     ? int64_t{3} * vision.image_size * vision.image_size
                     : int64_t{3} * side * vision.merge * n_rows;
  bytes.pre_projector = n_rows * vision.pre_dim() * value_bytes;
  bytes.post_projector = n_rows * shape.language.dim * value_bytes;
  bytes.hidden = n_tokens * shape.language.dim * value_bytes;
  bytes.kv = n_tokens * shape.kv_token_bytes(value_bytes);
  return bytes;
}

double transfer_ratio(const ModelShape& shape, double n_rows, double n_tokens) {
  const LanguageShape& lm = shape.language;
  const double width = static_cast<double>(lm.n_kv_heads) * lm.d_head / lm.dim;
  return 2.0 * lm.n_layers * width * n_tokens / n_rows;
}

double context_at_ratio(const ModelShape& shape, double n_rows, double ratio) {
  return ratio * n_rows / transfer_ratio(shape, 1, 1);
}

double pcie_gbs(int32_t generation, int32_t lanes) {
  HS_CHECK(generation >= 3 && generation <= 5);
  // 8, 16, 32 gigatransfers a second with 128 of 130 bits of data.
  const double transfers = 8.0 * (1 << (generation - 3));
  return transfers * 128 / 130 / 8 * lanes;
}

LinkPath pcie_path(LinkPath::Kind kind, int32_t generation, int32_t lanes, const LinkRates& rates) {
  return {kind, pcie_gbs(generation, lanes) * rates.pcie_efficiency};
}

LinkPath nvlink_path(double gbs, const LinkRates& rates) {
  return {LinkPath::Kind::kNvlink, gbs * rates.nvlink_efficiency};
}

LinkPath path_between(const Card& from, const Card& to, const LinkRates& rates) {
  const bool alike = from.key == to.key;
  if (alike && from.nvlink_gbs > 0) return nvlink_path(from.nvlink_gbs, rates);
  const auto kind = alike && from.peer ? LinkPath::Kind::kPeer : LinkPath::Kind::kStaged;
  const double gbs = std::min(pcie_gbs(from.pcie_generation, from.pcie_lanes),
                              pcie_gbs(to.pcie_generation, to.pcie_lanes));
  return {kind, gbs * rates.pcie_efficiency};
}

// Of a staged copy the second hop of the last chunk is not overlapped.
double copy_us(const LinkPath& path, double bytes, const LinkRates& rates) {
  if (bytes <= 0) return 0;
  const double chunk = std::min(bytes, rates.staged_chunk_mib * (1 << 20));
  const double moved = bytes + (path.kind == LinkPath::Kind::kStaged ? chunk : 0);
  return rates.latency_us + moved / (path.gbs * 1e3);
}

}  // namespace hs
