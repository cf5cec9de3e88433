#include "model/rope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>

namespace hs {

namespace {

constexpr double kFactorMax = 1e6;

double yarn_mscale(double scale, double mscale = 1.0) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

void read_yarn(FieldReader& rope, RopeConfig& config) {
  config.beta_fast = rope.number("beta_fast", 0, kFactorMax, 32.0);
  config.beta_slow = rope.number("beta_slow", 0, kFactorMax, 1.0);
  if (config.beta_fast == 0) config.beta_fast = 32.0;
  if (config.beta_slow == 0) config.beta_slow = 1.0;
  config.truncate = rope.flag("truncate", true);
  const double mscale = rope.number("mscale", 0, kFactorMax, 0.0);
  const double mscale_all_dim = rope.number("mscale_all_dim", 0, kFactorMax, 0.0);
  const double inferred =
      mscale != 0 && mscale_all_dim != 0
          ? yarn_mscale(config.factor, mscale) / yarn_mscale(config.factor, mscale_all_dim)
          : yarn_mscale(config.factor);
  config.attention_factor = rope.number("attention_factor", 0, kFactorMax, inferred);
}

std::optional<RopeConfig::Type> type_named(std::string_view name) {
  using enum RopeConfig::Type;
  if (name == "default") return kDefault;
  if (name == "linear") return kLinear;
  if (name == "dynamic") return kDynamic;
  if (name == "llama3") return kLlama3;
  if (name == "yarn") return kYarn;
  return std::nullopt;
}

void read_scaling(FieldReader& rope, std::string_view where, FieldReader& text_config,
                  int32_t max_positions, bool mrope, RopeConfig& config) {
  const std::string key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string name = rope.text(key, "default");
  const auto type = mrope && name == "mrope" ? RopeConfig::Type::kDefault : type_named(name);
  if (!type) {
    rope.complain(
        key, fmt::format("\"{}\" is not supported (default, linear, dynamic, llama3, yarn)", name),
        ErrorKind::kUnsupported);
    return;
  }
  if (rope.number("partial_rotary_factor", 0, 1, 1.0) != 1.0) {
    rope.complain("partial_rotary_factor", "other than 1 is not supported",
                  ErrorKind::kUnsupported);
  }
  config.type = *type;
  if (*type == RopeConfig::Type::kDefault) return;

  const bool long_context = *type == RopeConfig::Type::kLlama3 || *type == RopeConfig::Type::kYarn;
  if (long_context) {
    FieldReader& source = text_config.has("original_max_position_embeddings") ? text_config : rope;
    config.original_max_positions =
        source.integer("original_max_position_embeddings", 1, 1 << 28, max_positions);
  }
  if (*type == RopeConfig::Type::kYarn && !rope.has("factor")) {
    config.factor = max_positions / config.original_max_positions;
  } else {
    config.factor = rope.number("factor", 1e-6, kFactorMax);
  }
  if (*type == RopeConfig::Type::kYarn) read_yarn(rope, config);
  if (*type == RopeConfig::Type::kLlama3) {
    config.low_freq_factor = rope.number("low_freq_factor", 1e-6, kFactorMax);
    config.high_freq_factor = rope.number("high_freq_factor", 1e-6, kFactorMax);
    if (!rope.failed() && config.high_freq_factor <= config.low_freq_factor) {
      text_config.complain(where, "has a high_freq_factor not above its low_freq_factor");
    }
  }
}

// The object that holds the rotary settings, "" when there is none.
std::string scaling_key(const FieldReader& text_config) {
  for (const std::string key : {"rope_parameters", "rope_scaling"}) {
    if (text_config.has(key)) return key;
  }
  return "";
}

RopeConfig read_config(FieldReader& text_config, int32_t max_positions, double default_theta,
                       bool mrope) {
  RopeConfig config;
  config.theta = text_config.number("rope_theta", 1.0 + 1e-6, 1e12, default_theta);
  if (const std::string key = scaling_key(text_config); !key.empty()) {
    FieldReader rope = text_config.child(key);
    config.theta = rope.number("rope_theta", 1.0 + 1e-6, 1e12, config.theta);
    read_scaling(rope, key, text_config, max_positions, mrope, config);
  }
  return config;
}

// 1 / base^(2i/d), in float32 like the reference.
std::vector<float> plain_frequencies(double base, int32_t d_head) {
  std::vector<float> result(static_cast<size_t>(d_head / 2));
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(d_head);
    result[i] = 1.0F / std::pow(static_cast<float>(base), exponent);
  }
  return result;
}

void scale_llama3(const RopeConfig& config, std::vector<float>& frequencies) {
  const double low_wavelength = config.original_max_positions / config.low_freq_factor;
  const double high_wavelength = config.original_max_positions / config.high_freq_factor;
  for (float& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    const double smooth = (config.original_max_positions / wavelength - config.low_freq_factor) /
                          (config.high_freq_factor - config.low_freq_factor);
    const double f = static_cast<double>(frequency);
    if (wavelength > low_wavelength) {
      frequency = static_cast<float>(f / config.factor);
    } else if (wavelength >= high_wavelength) {
      frequency = static_cast<float>((1 - smooth) * f / config.factor + smooth * f);
    }
  }
}

void scale_yarn(const RopeConfig& config, int32_t d_head, std::vector<float>& frequencies) {
  const auto correction_dim = [&](double rotations) {
    return d_head * std::log(config.original_max_positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  double low = correction_dim(config.beta_fast);
  double high = correction_dim(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d_head - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double f = static_cast<double>(frequencies[i]);
    frequencies[i] = static_cast<float>(f / config.factor * ramp + f * (1 - ramp));
  }
}

}  // namespace

RopeConfig read_rope_config(FieldReader& text_config, int32_t max_positions, double default_theta) {
  return read_config(text_config, max_positions, default_theta, /*mrope=*/false);
}

RopeConfig read_mrope_config(FieldReader& text_config, int32_t max_positions, int32_t d_head,
                             double default_theta) {
  RopeConfig config = read_config(text_config, max_positions, default_theta, /*mrope=*/true);
  const std::string key = scaling_key(text_config);
  FieldReader nested = text_config.child(key);
  FieldReader& rope = key.empty() ? text_config : nested;
  std::vector<int32_t> sections = rope.integers("mrope_section", 0, d_head);
  if (sections.empty() && !rope.is_array("mrope_section")) sections = {16, 24, 24};
  const int64_t sum = std::accumulate(sections.begin(), sections.end(), int64_t{0});
  if (sections.size() != 3 || 2 * sum != d_head) {
    rope.complain("mrope_section",
                  fmt::format("[{}] must be three numbers whose sum is half of the head size, {}",
                              fmt::join(sections, ", "), d_head / 2));
    return config;
  }
  std::ranges::copy(sections, config.sections);
  return config;
}

std::vector<float> rope_frequencies(const RopeConfig& config, int32_t d_head, int32_t max_positions,
                                    int32_t n_positions) {
  double base = config.theta;
  if (config.type == RopeConfig::Type::kDynamic && d_head > 2) {
    const double length = std::max(n_positions, max_positions);
    base *= std::pow(config.factor * length / max_positions - (config.factor - 1),
                     d_head / (d_head - 2.0));
  }
  std::vector<float> frequencies = plain_frequencies(base, d_head);
  switch (config.type) {
    case RopeConfig::Type::kDefault:
    case RopeConfig::Type::kDynamic:
      break;
    case RopeConfig::Type::kLinear:
      for (float& f : frequencies) f = static_cast<float>(static_cast<double>(f) / config.factor);
      break;
    case RopeConfig::Type::kLlama3:
      scale_llama3(config, frequencies);
      break;
    case RopeConfig::Type::kYarn:
      scale_yarn(config, d_head, frequencies);
      break;
  }
  return frequencies;
}

std::vector<float> rope_table(const RopeConfig& config, const std::vector<float>& frequencies,
                              int32_t n_positions) {
  const size_t n = static_cast<size_t>(n_positions) * frequencies.size();
  std::vector<float> table(2 * n);
  const auto scale = static_cast<float>(config.attention_factor);
  for (int32_t p = 0; p < n_positions; ++p) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const size_t at = static_cast<size_t>(p) * frequencies.size() + i;
      const float angle = static_cast<float>(p) * frequencies[i];
      table[at] = std::cos(angle) * scale;
      table[n + at] = std::sin(angle) * scale;
    }
  }
  return table;
}

}  // namespace hs
