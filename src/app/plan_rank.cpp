// `heteroserve plan rank`: the cheapest mix of every arm, and whether two tiers pay.
#include <fmt/format.h>

#include <cmath>

#include "app/exit_codes.h"
#include "app/plan_inputs.h"
#include "plan/planner.h"

namespace hs {
namespace {

constexpr auto kModelled = Origin::kModelled;

void add_ranking(Report& report, const std::vector<PlanChoice>& ranking, const PlanQuery& query) {
  const bool rated = query.rate > 0;
  Report::Table& table = report.table(
      "ranking",
      rated ? fmt::format("Cheapest mix of each arm for {:.4g} requests a second, {:.0f} % of them "
                          "with the first token in {:.0f} ms and {:.0f} ms for each further one",
                          query.rate, 100 * query.share, query.ttft_ms, query.tpot_ms)
            : "Cheapest mix of each arm when there are always more requests, whatever the latency",
      {{"arm", "arm", "", {}},
       {"consumers", "consumer", "devices", {}, 0},
       {"datacenters", "datacenter", "devices", {}, 0},
       {"price_usd", "cards", "USD", {}, 0},
       {"usd_per_1000", "cost", "USD/1000 requests", kModelled, 4},
       {"capacity_per_s", "at most", "1/s", kModelled, 2},
       {"ttft_p90_ms", "first token, p90", "ms", kModelled, 0},
       {"tpot_p90_ms", "next tokens, p90", "ms", kModelled, 1},
       {"good_percent", "in target", "%", kModelled, 1}});
  const double none = std::nan("");
  for (const PlanChoice& one : ranking) {
    const std::string name(to_string(one.kind));
    if (!one.mix) {
      table.add({name, none, none, none, none, none, none, none, none});
      table.note(fmt::format("{}: {}.", name, one.why));
      continue;
    }
    const auto& sim = one.simulated;
    table.add({name, one.mix->n_consumer, one.mix->n_datacenter, one.price_usd,
               1000 * one.usd_per_request, one.capacity_per_s, sim ? sim->ttft_ms.p90 : none,
               sim ? sim->tpot_ms.p90 : none, sim ? 100 * sim->good_share : none});
  }
}

Status make_report(Report& report, const PlanOptions& options) {
  const auto inputs = load_plan_inputs(options);
  if (!inputs) return std::unexpected(inputs.error());
  const auto& [shape, catalogue, workload, devices, profile] = *inputs;
  for (const DeviceModel* one : {&devices.consumer, &devices.datacenter}) {
    if (!profile || one->card().price_usd > 0) continue;
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--cards: {} of the profile has no price; give it one as "
                            "[cards.\"{}\"] price_usd",
                            one->card().name, one->card().key),
                {}, "--cards");
  }
  SimOptions sim;
  sim.limits = serving_limits(options.devices, workload.workload);
  sim.link = catalogue.link;
  const ArmModel model(shape, workload.workload, sim.limits, devices.consumer, devices.datacenter,
                       catalogue.link);
  const PlanQuery query{.rate = options.simulate.rate,
                        .ttft_ms = options.latency.ttft_ms,
                        .tpot_ms = options.latency.tpot_ms,
                        .share = options.latency.share,
                        .max_devices = options.max_devices,
                        .n_requests = options.simulate.requests,
                        .seed = options.simulate.seed};
  const auto ranking = rank_arms(model, shape, workload.workload, sim, catalogue.cost, query);
  if (!ranking) return std::unexpected(ranking.error());
  add_ranking(report, *ranking, query);
  std::string told;
  for (const std::string& line : verdict(model, *ranking, catalogue.cost)) {
    told += fmt::format("{}{}", told.empty() ? "" : "\n", line);
  }
  report.note(told);
  const auto device = [](const DeviceModel& one) {
    return one.n_cards() > 1 ? fmt::format("{} x {}", one.n_cards(), one.card().name)
                             : one.card().name;
  };
  report.note(
      fmt::format("A request: {} Consumer device: {}; datacenter device: {}. Prices are "
                  "those of the card list; efficiencies are {}.",
                  workload.told, device(devices.consumer), device(devices.datacenter),
                  catalogue.efficiency.origin == Origin::kMeasured ? "measured" : "assumed"));
  return {};
}

}  // namespace

int plan_rank_command(const PlanOptions& options) {
  Report report("plan rank");
  if (const Status made = make_report(report, options); !made) return plan_failure(made.error());
  return print_report(report, options.json);
}

}  // namespace hs
