// Cards, links, prices and efficiencies, as cards.toml says them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// Where a number comes from.
enum class Origin : uint8_t {
  kPublished,  // somebody's data sheet, config or paper
  kModelled,   // a formula or simulation of ours
  kMeasured,   // on a machine
};
std::string_view to_string(Origin origin);

enum class Pool : uint8_t { kConsumer, kDatacenter };

struct Card {
  std::string key;  // "rtx4090"
  std::string name;
  Pool pool = Pool::kDatacenter;
  double tflops = 0;         // dense, 16-bit with 32-bit sums
  double bandwidth_gbs = 0;  // of its memory, 1e9 bytes a second
  double memory_gb = 0;      // 1e9 bytes
  double power_w = 0;
  int32_t pcie_generation = 0;
  int32_t pcie_lanes = 0;
  double nvlink_gbs = 0;  // one direction; 0: none
  bool peer = false;      // may copy to its like without the host
  double price_usd = 0;
  std::string source;
};

struct Efficiency {
  double language = 0.5;  // of tflops
  double vision = 0.45;
  double bandwidth = 0.85;
  double step_overhead_us = 0;
  double encode_overhead_us = 0;
  Origin origin = Origin::kModelled;
};

struct LinkRates {
  double pcie_efficiency = 0.8;
  double nvlink_efficiency = 0.8;
  double staged_chunk_mib = 1;
  double latency_us = 15;
};

struct CostRates {
  double years = 3;
  double power_usd_kwh = 0.15;
  double utilisation = 1;
};

struct Catalogue {
  std::vector<Card> cards;
  Efficiency efficiency;
  LinkRates link;
  CostRates cost;

  // kInvalidArgument "card": names those that are there.
  Result<Card> card(std::string_view key) const;
};

// Errors name file, line and field.
Result<Catalogue> read_catalogue(std::string_view toml, std::string_view file);

}  // namespace hs
