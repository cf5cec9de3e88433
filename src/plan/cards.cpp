#include "plan/cards.h"

#include <fmt/format.h>

#include "plan/toml_table.h"

namespace hs {
namespace {

constexpr double kMany = 1e9;
constexpr double kSome = 1e-6;  // what must be positive

Card read_card(const std::string& key, const TomlTable& table, std::optional<Error>& error) {
  Card card;
  card.key = key;
  card.name = table.text("name", key, error);
  const std::string pool = table.text("pool", {}, error);
  if (pool != "consumer" && pool != "datacenter") {
    table.complain("pool", "must be \"consumer\" or \"datacenter\"", error);
  }
  card.pool = pool == "consumer" ? Pool::kConsumer : Pool::kDatacenter;
  card.tflops = table.number("tflops", kSome, kMany, {}, error);
  card.bandwidth_gbs = table.number("bandwidth_gbs", kSome, kMany, {}, error);
  card.memory_gb = table.number("memory_gb", kSome, kMany, {}, error);
  card.power_w = table.number("power_w", 0, kMany, {}, error);
  card.pcie_generation = static_cast<int32_t>(table.integer("pcie_generation", 3, 5, {}, error));
  card.pcie_lanes = static_cast<int32_t>(table.integer("pcie_lanes", 1, 16, 16, error));
  card.nvlink_gbs = table.number("nvlink_gbs", 0, kMany, 0, error);
  card.peer = table.flag("peer", false, error);
  card.price_usd = table.number("price_usd", 0, kMany, {}, error);
  card.source = table.text("source", "", error);
  table.check_all_read(error);
  return card;
}

Efficiency read_efficiency(const TomlTable& table, std::optional<Error>& error) {
  const Efficiency usual;
  Efficiency result;
  result.language = table.number("language", 0.001, 1, usual.language, error);
  result.vision = table.number("vision", 0.001, 1, usual.vision, error);
  result.bandwidth = table.number("bandwidth", 0.001, 1, usual.bandwidth, error);
  result.step_overhead_us = table.number("step_overhead_us", 0, 1e6, 0, error);
  result.encode_overhead_us = table.number("encode_overhead_us", 0, 1e6, 0, error);
  const std::string kind = table.text("kind", "modelled", error);
  if (kind != "modelled" && kind != "measured") {
    table.complain("kind", "must be \"modelled\" or \"measured\"", error);
  }
  result.origin = kind == "measured" ? Origin::kMeasured : Origin::kModelled;
  table.check_all_read(error);
  return result;
}

LinkRates read_link(const TomlTable& table, std::optional<Error>& error) {
  const LinkRates usual;
  LinkRates link;
  link.pcie_efficiency = table.number("pcie_efficiency", 0.001, 1, usual.pcie_efficiency, error);
  link.nvlink_efficiency =
      table.number("nvlink_efficiency", 0.001, 1, usual.nvlink_efficiency, error);
  link.staged_chunk_mib =
      table.number("staged_chunk_mib", 0.001, 1024, usual.staged_chunk_mib, error);
  link.latency_us = table.number("latency_us", 0, 1e6, usual.latency_us, error);
  table.check_all_read(error);
  return link;
}

CostRates read_cost(const TomlTable& table, std::optional<Error>& error) {
  const CostRates usual;
  CostRates cost;
  cost.years = table.number("years", 0.01, 100, usual.years, error);
  cost.power_usd_kwh = table.number("power_usd_kwh", 0, 1000, usual.power_usd_kwh, error);
  cost.utilisation = table.number("utilisation", 0.001, 1, usual.utilisation, error);
  table.check_all_read(error);
  return cost;
}

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kPublished:
      return "published";
    case Origin::kMeasured:
      return "measured";
    case Origin::kModelled:
      break;
  }
  return "modelled";
}

Result<Card> Catalogue::card(std::string_view key) const {
  std::string known;
  for (const Card& card : cards) {
    if (card.key == key) return card;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", card.key);
  }
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("card: \"{}\" is not known (known: {})", key, known), {}, "card");
}

Result<Catalogue> read_catalogue(std::string_view toml, std::string_view file) {
  const auto root = TomlTable::parse(toml, file);
  if (!root) return std::unexpected(root.error());
  Catalogue result;
  std::optional<Error> error;
  const TomlTable* cards = root->table("cards");
  if (cards == nullptr || cards->tables().empty()) root->complain("cards", "is missing", error);
  for (const auto& [name, table] : root->tables()) {
    if (name == "efficiency") {
      result.efficiency = read_efficiency(table, error);
    } else if (name == "link") {
      result.link = read_link(table, error);
    } else if (name == "cost") {
      result.cost = read_cost(table, error);
    } else if (name != "cards") {
      root->complain(name, "is not known here", error);
    }
  }
  root->check_all_read(error);
  if (cards != nullptr) {
    cards->check_all_read(error);
    for (const auto& [key, table] : cards->tables()) {
      result.cards.push_back(read_card(key, table, error));
    }
  }
  if (error) return std::unexpected(*error);
  return result;
}

}  // namespace hs
