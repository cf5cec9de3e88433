#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hs {
namespace {

std::vector<Mix> mixes(ArmKind kind, int32_t max_devices) {
  std::vector<Mix> result;
  const bool consumer = uses(kind, Pool::kConsumer);
  const bool datacenter = uses(kind, Pool::kDatacenter);
  for (int32_t c = consumer ? 1 : 0; c <= (consumer ? max_devices : 0); ++c) {
    for (int32_t d = datacenter ? 1 : 0; d <= (datacenter ? max_devices - c : 0); ++d) {
      result.push_back({c, d});
    }
  }
  return result;
}

class Ranking {
 public:
  Ranking(const ArmModel& model, const ModelShape& shape, const Workload& workload,
          const SimOptions& options, const CostRates& cost, const PlanQuery& query)
      : model_(model),
        shape_(shape),
        workload_(workload),
        options_(options),
        cost_(cost),
        query_(query) {
    options_.arrivals = ArrivalProcess::kPoisson;
    options_.rate = query.rate;
    options_.n_requests = query.n_requests;
    options_.seed = query.seed;
    options_.ttft_target_ms = query.ttft_ms;
    options_.tpot_target_ms = query.tpot_ms;
    options_.timeline = false;
  }

  Result<PlanChoice> best(ArmKind kind) {
    PlanChoice none;
    none.kind = kind;
    std::vector<PlanChoice> tries;
    for (const Mix& mix : mixes(kind, query_.max_devices)) {
      PlanChoice one = priced(kind, mix);
      if (one.capacity_per_s > 0) tries.push_back(std::move(one));
    }
    if (tries.empty()) {
      none.why = "the model does not fit the cards";
      return none;
    }
    // Of mixes that cost the same, as multiples of one do, the one with the fewest devices.
    std::ranges::stable_sort(tries, {}, [](const PlanChoice& one) {
      return std::round(std::log(one.usd_per_request) * 1e6);
    });
    if (query_.rate <= 0) return tries.front();
    std::erase_if(tries, [&](const PlanChoice& one) { return one.capacity_per_s < query_.rate; });
    if (tries.empty()) {
      none.why = fmt::format("{} devices are too slow", query_.max_devices);
      return none;
    }
    return first_in_time(std::move(tries), std::move(none));
  }

 private:
  PlanChoice priced(ArmKind kind, const Mix& mix) const {
    PlanChoice one;
    one.kind = kind;
    one.mix = mix;
    one.capacity_per_s = model_.rate(kind, mix);
    one.price_usd = model_.price_usd(kind, mix);
    one.usd_per_s = model_.usd_per_s(kind, mix, cost_);
    const double served = query_.rate > 0 ? query_.rate : one.capacity_per_s;
    one.usd_per_request = one.usd_per_s / served;
    return one;
  }

  // Refused requests count as late ones.
  static double good_share(const SimResult& result) {
    const auto answered = static_cast<double>(result.n_finished);
    const auto refused = static_cast<double>(result.n_refused + result.n_too_large);
    return result.good_share * answered / (answered + refused);
  }

  Result<PlanChoice> first_in_time(std::vector<PlanChoice> tries, PlanChoice none) {
    double best_share = 0;
    for (PlanChoice& one : tries) {
      auto result = simulate(model_.arm(one.kind, *one.mix), shape_, workload_, options_);
      if (!result) return std::unexpected(result.error());
      const double share = good_share(*result);
      best_share = std::max(best_share, share);
      if (share < query_.share) continue;
      one.simulated = *std::move(result);
      return std::move(one);
    }
    none.why = fmt::format("at best {:.0f} % of the requests are in time with {} devices",
                           100 * best_share, query_.max_devices);
    return none;
  }

  const ArmModel& model_;
  const ModelShape& shape_;
  const Workload& workload_;
  SimOptions options_;
  const CostRates& cost_;
  const PlanQuery& query_;
};

bool is_two_tier(ArmKind kind) {
  return kind == ArmKind::kTwoTiers || kind == ArmKind::kStealing;
}

const PlanChoice* find_choice(const std::vector<PlanChoice>& ranking, bool (*suits)(ArmKind)) {
  const auto it = std::ranges::find_if(
      ranking, [&](const PlanChoice& one) { return one.mix && suits(one.kind); });
  return it == ranking.end() ? nullptr : &*it;
}

std::string told(const PlanChoice& choice) {
  return fmt::format("{} with {} + {} devices", to_string(choice.kind), choice.mix->n_consumer,
                     choice.mix->n_datacenter);
}

// What a consumer card must cost for the two to cost the same; 0 when no price does that.
double equal_price(const ArmModel& model, const PlanChoice& a, const PlanChoice& b,
                   const CostRates& cost) {
  const auto cards = [&](const PlanChoice& one) {
    return uses(one.kind, Pool::kConsumer) ? one.mix->n_consumer * model.consumer().n_cards() /
                                                 (one.usd_per_s / one.usd_per_request)
                                           : 0.0;
  };
  // Dollars a request fall by this for each dollar that a card costs less.
  const double per_dollar =
      (cards(a) - cards(b)) / (cost.years * 365.25 * 86'400 * cost.utilisation);
  if (per_dollar == 0) return 0;
  const double price =
      model.consumer().card().price_usd - (a.usd_per_request - b.usd_per_request) / per_dollar;
  return std::max(price, 0.0);
}

}  // namespace

Result<std::vector<PlanChoice>> rank_arms(const ArmModel& model, const ModelShape& shape,
                                          const Workload& workload, const SimOptions& options,
                                          const CostRates& cost, const PlanQuery& query) {
  Ranking ranking(model, shape, workload, options, cost, query);
  std::vector<PlanChoice> choices;
  for (const ArmKind kind : kAllArms) {
    auto choice = ranking.best(kind);
    if (!choice) return std::unexpected(choice.error());
    choices.push_back(*std::move(choice));
  }
  std::ranges::stable_sort(choices, [](const PlanChoice& a, const PlanChoice& b) {
    if (a.mix.has_value() != b.mix.has_value()) return a.mix.has_value();
    return a.mix && a.usd_per_request < b.usd_per_request;
  });
  return choices;
}

std::vector<std::string> verdict(const ArmModel& model, const std::vector<PlanChoice>& ranking,
                                 const CostRates& cost) {
  std::vector<std::string> lines;
  const PlanChoice* tiers = find_choice(ranking, is_two_tier);
  const PlanChoice* other = find_choice(ranking, [](ArmKind kind) { return !is_two_tier(kind); });
  if (tiers == nullptr && other == nullptr) return {"No arm will do: allow more devices."};
  if (other == nullptr) return {fmt::format("Only two tiers will do: {}.", told(*tiers))};
  const double share = model.vision_share();
  if (tiers == nullptr) {
    lines.push_back(fmt::format("Two tiers will not do; the cheapest is {}.", told(*other)));
    return lines;
  }
  const double saved = 100 * (1 - tiers->usd_per_request / other->usd_per_request);
  if (saved > 0) {
    lines.push_back(fmt::format("Two tiers pay: {} costs {:.0f} % less than {}.", told(*tiers),
                                saved, told(*other)));
  } else {
    lines.push_back(
        fmt::format("Two tiers do not pay: {} costs {:.0f} % less than {}.", told(*other),
                    100 * (1 - other->usd_per_request / tiers->usd_per_request), told(*tiers)));
  }
  if (std::isfinite(share)) {
    const double rho = model.consumer().n_cards() * model.consumer().card().price_usd /
                       (model.datacenter().n_cards() * model.datacenter().card().price_usd);
    lines.push_back(
        fmt::format("Vision is {:.0f} % of a request's time on a datacenter device; one consumer "
                    "device for each "
                    "of them, without stealing, saves on cards against datacenter devices alone "
                    "from {:.0f} % on.",
                    100 * share, 100 * rho / (1 + rho)));
  }
  if (other->kind == ArmKind::kConsumer) {
    const double price = equal_price(model, *other, *tiers, cost);
    lines.push_back(fmt::format(
        "The language model and its cache fit {} ({} GB), so that card does everything for less. "
        "Two tiers would win with a model that does not fit it{}.",
        model.consumer().card().name, model.consumer().card().memory_gb,
        saved <= 0 && price > model.consumer().card().price_usd
            ? fmt::format(", or if that card cost more than {:.0f} USD", price)
            : ""));
  } else if (saved <= 0) {
    const double price = equal_price(model, *other, *tiers, cost);
    lines.push_back(price > 0 ? fmt::format("They would break even if a {} cost {:.0f} USD.",
                                            model.consumer().card().name, price)
                              : "No price of the consumer card changes that.");
  }
  return lines;
}

}  // namespace hs
