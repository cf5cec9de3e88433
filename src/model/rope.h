// Rotary positions: the frequencies of Llama's RoPE variants, and the cos/sin table that kernels
// read. Reference: transformers 5.24, modeling_rope_utils.py (the same formulas under the same
// names).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/json_fields.h"

namespace hs {

struct RopeConfig {
  enum class Type {
    kDefault,
    kLinear,   // all frequencies / factor
    kDynamic,  // NTK: a larger base for sequences beyond the trained length
    kLlama3,   // low frequencies / factor, smooth in between
    kYarn,     // NTK by parts, with scaled attention
  };
  Type type = Type::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;       // llama3
  double high_freq_factor = 4.0;      // llama3
  double original_max_positions = 0;  // llama3, yarn
  double beta_fast = 32.0;            // yarn
  double beta_slow = 1.0;             // yarn
  double attention_factor = 1.0;      // cos and sin are multiplied by it
  bool truncate = true;               // yarn: whole-numbered correction range
  // M-RoPE (Qwen2-VL, Wang et al., 2024): how many frequencies take the position in time, height
  // and width, in this order; all 0 for models with one position axis.
  int32_t sections[3] = {0, 0, 0};

  int32_t n_axes() const { return sections[0] + sections[1] + sections[2] > 0 ? 3 : 1; }
};

// Reads rope_parameters, or the older rope_scaling and rope_theta, from a text config.
RopeConfig read_rope_config(FieldReader& text_config, int32_t max_positions,
                            double default_theta = 10000.0);

// The same for M-RoPE: mrope_section besides, whose sum must be d_head / 2; type "mrope" is the
// older name of "default".
RopeConfig read_mrope_config(FieldReader& text_config, int32_t max_positions, int32_t d_head,
                             double default_theta);

// (d_head / 2) frequencies for sequences of up to n_positions tokens; max_positions is the trained
// length. Only kDynamic depends on n_positions: it is the length that the table serves, fixed at
// load, because cached keys cannot be rotated again when a sequence grows. Up to max_positions it
// equals the unscaled variant.
std::vector<float> rope_frequencies(const RopeConfig& config, int32_t d_head, int32_t max_positions,
                                    int32_t n_positions);

// cos and sin, (n_positions, n_frequencies) each, one after another. Angles are float32 products,
// as in the reference.
std::vector<float> rope_table(const RopeConfig& config, const std::vector<float>& frequencies,
                              int32_t n_positions);

}  // namespace hs
