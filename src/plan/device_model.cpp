#include "plan/device_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "plan/measured_times.h"
#include "plan/transfer_cost.h"

namespace hs {
namespace {

constexpr double kMemoryShare = 0.9;   // of a card's, as servers of this kind take by default
constexpr double kWorkingBytes = 1e9;  // activations and embedding rows, on each card
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e6;

}  // namespace

DeviceModel::DeviceModel(const ModelShape& shape, const Card& card, int32_t n_cards,
                         const Efficiency& efficiency, const LinkRates& link)
    : shape_(shape), card_(card), n_cards_(n_cards) {
  HS_CHECK_GT(n_cards, 0);
  const LanguageShape& lm = shape.language;
  const double peak_us = card.tflops * kTera / kMicro;  // a tower stands on one card
  const double flops_us = peak_us * efficiency.language * n_cards;
  const double bytes_us = card.bandwidth_gbs * kGiga / kMicro * efficiency.bandwidth * n_cards;
  vision_flops_us_ = peak_us * efficiency.vision;
  vision_weights_us_ =
      static_cast<double>(shape.vision_parameters()) * kValueBytes / (bytes_us / n_cards);
  token_us_ = 2.0 * static_cast<double>(lm.layer_parameters()) / flops_us;
  sample_us_ = 2.0 * static_cast<double>(lm.head_parameters()) / flops_us;
  weights_us_ =
      static_cast<double>(lm.layer_parameters() + lm.head_parameters()) * kValueBytes / bytes_us;
  pair_us_ = 4.0 * lm.n_layers * lm.n_heads * lm.d_head / flops_us;
  key_us_ = static_cast<double>(shape.kv_token_bytes(kValueBytes)) / bytes_us;
  step_overhead_us_ = efficiency.step_overhead_us;
  encode_overhead_us_ = efficiency.encode_overhead_us;
  if (n_cards > 1) {
    // Two sums over all cards a layer, each a ring that moves 2 (n - 1) / n of the activations.
    const LinkPath path = path_between(card, card, link);
    const double bytes = 2.0 * lm.n_layers * lm.dim * kValueBytes * 2 * (n_cards - 1) / n_cards;
    exchange_us_ = bytes / (path.gbs * kGiga / kMicro);
    step_overhead_us_ += 2.0 * lm.n_layers * link.latency_us;
  }
}

DeviceModel::DeviceModel(const ModelShape& shape, const Card& card,
                         std::shared_ptr<const MeasuredTimes> measured)
    : shape_(shape), card_(card), n_cards_(1), measured_(std::move(measured)) {
  HS_CHECK(measured_ != nullptr);
}

double DeviceModel::tokens_us(double n_tokens, double n_sampled) const {
  if (measured_ != nullptr) return measured_->tokens_us(n_tokens, n_sampled);
  return std::max(n_tokens * token_us_ + n_sampled * sample_us_, weights_us_) +
         n_tokens * exchange_us_ + step_overhead_us_;
}

double DeviceModel::pause_us(double n_seqs) const {
  return measured_ == nullptr ? 0 : measured_->pause_us(n_seqs);
}

double DeviceModel::picture_us(int32_t rows) const {
  if (measured_ != nullptr) return measured_->encode_us({&rows, 1});
  return shape_.encode_flops(rows) / vision_flops_us_;
}

double DeviceModel::encode_us(std::span<const int32_t> rows) const {
  if (measured_ != nullptr) return measured_->encode_us(rows);
  double us = 0;
  for (const int32_t n : rows) us += picture_us(n);
  return std::max(us, vision_weights_us_) + encode_overhead_us_;
}

double DeviceModel::attention_us(const StepPart& part) const {
  if (measured_ != nullptr) return measured_->attention_us(part);
  const double count = part.count;
  const double pairs = count * part.first + count * (count + 1) / 2;
  return std::max(pairs * pair_us_, (part.first + count) * key_us_);
}

double DeviceModel::step_us(std::span<const StepPart> parts) const {
  double attention = 0;
  int64_t n_tokens = 0;
  int64_t n_sampled = 0;
  for (const StepPart& part : parts) {
    attention += attention_us(part);
    n_tokens += part.count;
    n_sampled += part.sample ? 1 : 0;
  }
  return attention + tokens_us(static_cast<double>(n_tokens), static_cast<double>(n_sampled));
}

namespace {

double path_us(const DeviceModel& from, const DeviceModel& to, double bytes,
               const LinkRates& link) {
  return copy_us(path_between(from.card(), to.card(), link), bytes, link);
}

}  // namespace

double embedding_copy_us(const ModelShape& shape, const DeviceModel& from, const DeviceModel& to,
                         double n_rows, const LinkRates& link) {
  if (to.measured() != nullptr && to.measured()->has_copies()) {
    return to.measured()->embedding_copy_us(n_rows);
  }
  return path_us(from, to, n_rows * shape.language.dim * DeviceModel::kValueBytes, link);
}

double kv_copy_us(const ModelShape& shape, const DeviceModel& from, const DeviceModel& to,
                  double n_tokens, const LinkRates& link) {
  if (to.measured() != nullptr && to.measured()->has_copies()) {
    return to.measured()->kv_copy_us(n_tokens);
  }
  const auto token_bytes = static_cast<double>(shape.kv_token_bytes(DeviceModel::kValueBytes));
  return path_us(from, to, n_tokens * token_bytes, link);
}

int64_t DeviceModel::kv_tokens(bool tower) const {
  if (measured_ != nullptr) return measured_->kv_tokens();
  double left = (card_.memory_gb * kGiga * kMemoryShare - kWorkingBytes) * n_cards_;
  left -= static_cast<double>(shape_.language.parameters()) * kValueBytes;
  if (tower) left -= static_cast<double>(shape_.vision_parameters()) * kValueBytes;
  return static_cast<int64_t>(left / static_cast<double>(shape_.kv_token_bytes(kValueBytes)));
}

}  // namespace hs
