// How long a card, or several that share every matrix, takes for pictures and steps: a roofline
// with stated efficiencies, or what a device was measured to take (plan/measured_times.h). The
// simulator's devices and the closed form both use it, so that they can be held against each other.
//
// A step multiplies all its tokens with the layers' weights, which it reads once: it takes the
// longer of the two. Attention follows for one sequence after another: the longer of its operations
// and of reading the keys and values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "plan/cards.h"
#include "plan/model_shape.h"

namespace hs {

// Part of a step: `count` tokens of one sequence behind `first` that are in the cache.
struct StepPart {
  int32_t first = 0;
  int32_t count = 0;
  bool sample = false;
};

class MeasuredTimes;

class DeviceModel {
 public:
  static constexpr int32_t kValueBytes = 2;  // of weights, embeddings, keys and values

  // n_cards: tensor-parallel. REQUIRES: n_cards > 0.
  DeviceModel(const ModelShape& shape, const Card& card, int32_t n_cards,
              const Efficiency& efficiency, const LinkRates& link);
  // A device that was measured; the card says what it costs.
  DeviceModel(const ModelShape& shape, const Card& card,
              std::shared_ptr<const MeasuredTimes> measured);

  Origin origin() const { return measured_ == nullptr ? Origin::kModelled : Origin::kMeasured; }
  const MeasuredTimes* measured() const { return measured_.get(); }
  const Card& card() const { return card_; }
  int32_t n_cards() const { return n_cards_; }

  // One encode order with pictures of so many rows.
  double encode_us(std::span<const int32_t> rows) const;
  double picture_us(int32_t rows) const;  // alone, without the order's overhead
  double step_us(std::span<const StepPart> parts) const;

  // The parts of step_us(), for the closed form.
  double tokens_us(double n_tokens, double n_sampled) const;
  double attention_us(const StepPart& part) const;
  // From the end of such a step to the start of the next; 0 unless it was measured.
  double pause_us(double n_seqs) const;
  double token_us() const { return token_us_; }
  double weights_us() const { return weights_us_; }
  double step_overhead_us() const { return step_overhead_us_; }
  double encode_overhead_us() const { return encode_overhead_us_; }

  // Tokens of keys and values that fit beside the weights, the working memory and, with `tower`,
  // the vision tower; negative when not even those fit.
  int64_t kv_tokens(bool tower) const;

 private:
  ModelShape shape_;
  Card card_;
  int32_t n_cards_;
  std::shared_ptr<const MeasuredTimes> measured_;
  double vision_flops_us_ = 0;  // operations a microsecond
  double vision_weights_us_ = 0;
  double token_us_ = 0;
  double sample_us_ = 0;
  double weights_us_ = 0;
  double exchange_us_ = 0;  // of a token's activations between the cards
  double pair_us_ = 0;      // attention: a pair of a query and a key, all layers and heads
  double key_us_ = 0;       // reading a token's keys and values
  double step_overhead_us_ = 0;
  double encode_overhead_us_ = 0;
};

// Microseconds that rows of pictures, or tokens of keys and values, take from one device to
// another: measured where the receiver was, else by the path between the cards.
double embedding_copy_us(const ModelShape& shape, const DeviceModel& from, const DeviceModel& to,
                         double n_rows, const LinkRates& link);
double kv_copy_us(const ModelShape& shape, const DeviceModel& from, const DeviceModel& to,
                  double n_tokens, const LinkRates& link);

}  // namespace hs
