// What each way of cutting a request in two moves between devices, and how long that takes: the
// paper's Theorem 1 with exact constants (arXiv 2603.12707; heads that share keys and values
// counted as they are).
#pragma once

#include <cstdint>

#include "plan/cards.h"
#include "plan/model_shape.h"

namespace hs {

// Bytes a request with `n_rows` image rows and `n_tokens` tokens of context moves at each cut.
struct CutBytes {
  int64_t pixels = 0;  // before the tower: 8-bit RGB of the scaled picture
  int64_t pre_projector = 0;
  int64_t post_projector = 0;  // what the two tiers exchange
  int64_t hidden = 0;          // between two layers of the language model, all tokens
  int64_t kv = 0;              // between prefill and decode
};
CutBytes cut_bytes(const ModelShape& shape, int64_t n_rows, int64_t n_tokens, int32_t value_bytes);

// kv / post_projector = 2 L (n_kv d_head / d) (s / N_v).
double transfer_ratio(const ModelShape& shape, double n_rows, double n_tokens);
// The context at which the ratio is `ratio`.
double context_at_ratio(const ModelShape& shape, double n_rows, double ratio);

struct LinkPath {
  enum class Kind : uint8_t {
    kPeer,    // one copy over PCIe
    kStaged,  // two through host memory, overlapped chunk by chunk
    kNvlink,
  };
  Kind kind = Kind::kStaged;
  double gbs = 0;  // of one hop, as it is reached
};

// Line rate of PCIe, 1e9 bytes a second, one direction. REQUIRES: generation 3 to 5.
double pcie_gbs(int32_t generation, int32_t lanes);
LinkPath pcie_path(LinkPath::Kind kind, int32_t generation, int32_t lanes, const LinkRates& rates);
LinkPath nvlink_path(double gbs, const LinkRates& rates);
// What there is between two cards: NVLink or a peer copy between cards of one kind that have it,
// host memory otherwise.
LinkPath path_between(const Card& from, const Card& to, const LinkRates& rates);

double copy_us(const LinkPath& path, double bytes, const LinkRates& rates);

}  // namespace hs
