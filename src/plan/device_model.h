// How long a card, or several that share every matrix, takes for pictures and steps: a roofline
// with stated efficiencies. The simulator's devices and the closed form both use it, so that they
// can be held against each other.
//
// A step multiplies all its tokens with the layers' weights, which it reads once: it takes the
// longer of the two. Attention follows for one sequence after another: the longer of its operations
// and of reading the keys and values.
#pragma once

#include <algorithm>
#include <cstdint>
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

class DeviceModel {
 public:
  static constexpr int32_t kValueBytes = 2;  // of weights, embeddings, keys and values

  // n_cards: tensor-parallel. REQUIRES: n_cards > 0.
  DeviceModel(const ModelShape& shape, const Card& card, int32_t n_cards,
              const Efficiency& efficiency, const LinkRates& link);

  const Card& card() const { return card_; }
  int32_t n_cards() const { return n_cards_; }

  // One encode order with pictures of so many rows.
  double encode_us(std::span<const int32_t> rows) const;
  double picture_us(int32_t rows) const;  // alone, without the order's overhead
  double step_us(std::span<const StepPart> parts) const;

  // The parts of step_us(), for the closed form.
  double tokens_us(double n_tokens, double n_sampled) const {
    return std::max(n_tokens * token_us_ + n_sampled * sample_us_, weights_us_) +
           n_tokens * exchange_us_ + step_overhead_us_;
  }
  double attention_us(const StepPart& part) const;
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

}  // namespace hs
