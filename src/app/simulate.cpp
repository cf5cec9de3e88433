// `heteroserve simulate`: the real scheduler on modelled devices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "api/chrome_trace.h"
#include "app/exit_codes.h"
#include "app/plan_inputs.h"
#include "plan/arms.h"
#include "plan/simulator.h"

namespace hs {
namespace {

constexpr auto kModelled = Origin::kModelled;

Result<std::vector<ArmKind>> wanted_arms(const std::vector<std::string>& names) {
  if (names.empty()) return std::vector<ArmKind>(std::begin(kAllArms), std::end(kAllArms));
  std::vector<ArmKind> kinds;
  for (const std::string& name : names) {
    const auto it = std::ranges::find_if(kAllArms, [&](ArmKind k) { return to_string(k) == name; });
    if (it == std::end(kAllArms)) {
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("--arm: \"{}\" is not datacenter, consumer, stage, two-tiers or "
                              "stealing",
                              name),
                  {}, "--arm");
    }
    kinds.push_back(*it);
  }
  return kinds;
}

Result<SimOptions> simulation_options(const PlanOptions& options, const Workload& workload,
                                      const Catalogue& catalogue) {
  static const std::map<std::string_view, ArrivalProcess> kProcesses = {
      {"saturated", ArrivalProcess::kSaturated},
      {"poisson", ArrivalProcess::kPoisson},
      {"bursts", ArrivalProcess::kBursts},
      {"even", ArrivalProcess::kEven},
      {"replay", ArrivalProcess::kReplay}};
  const SimulateOptions& flags = options.simulate;
  SimOptions result;
  result.limits = serving_limits(options.devices, workload);
  result.link = catalogue.link;
  result.arrivals = kProcesses.at(flags.arrivals);
  result.n_requests = flags.requests;
  result.seed = flags.seed;
  result.speed = flags.speed;
  result.ttft_target_ms = options.latency.ttft_ms;
  result.tpot_target_ms = options.latency.tpot_ms;
  result.timeline = !flags.trace.empty();
  const bool replay = result.arrivals == ArrivalProcess::kReplay;
  if (replay && workload.arrivals_us.empty()) {
    return fail(ErrorKind::kInvalidArgument, "--arrivals: replay needs --from-log", {},
                "--arrivals");
  }
  if (replay) result.warmup_share = 0;
  const bool open = !replay && result.arrivals != ArrivalProcess::kSaturated;
  if (open && flags.rate <= 0) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--rate: {} arrivals need requests a second", flags.arrivals), {},
                "--rate");
  }
  if (open) result.rate = flags.rate;
  return result;
}

struct Run {
  ArmKind kind;
  Mix mix;
  SimResult result;
};

void add_latency(Report& report, const std::vector<Run>& runs) {
  Report::Table& table = report.table("latency", "Latency, p50 / p90 / p99",
                                      {{"arm", "arm", "", {}},
                                       {"ttft_p50_ms", "first token", "ms", kModelled, 0},
                                       {"ttft_p90_ms", "", "ms", kModelled, 0},
                                       {"ttft_p99_ms", "", "ms", kModelled, 0},
                                       {"tpot_p50_ms", "next tokens", "ms", kModelled, 1},
                                       {"tpot_p90_ms", "", "ms", kModelled, 1},
                                       {"tpot_p99_ms", "", "ms", kModelled, 1},
                                       {"e2e_p50_ms", "answer", "ms", kModelled, 0},
                                       {"e2e_p90_ms", "", "ms", kModelled, 0},
                                       {"e2e_p99_ms", "", "ms", kModelled, 0}});
  for (const Run& run : runs) {
    const SimResult& r = run.result;
    table.add({std::string(to_string(run.kind)), r.ttft_ms.p50, r.ttft_ms.p90, r.ttft_ms.p99,
               r.tpot_ms.p50, r.tpot_ms.p90, r.tpot_ms.p99, r.e2e_ms.p50, r.e2e_ms.p90,
               r.e2e_ms.p99});
  }
}

void add_throughput(Report& report, const std::vector<Run>& runs, const ArmModel& model,
                    const PlanOptions& options) {
  Report::Table& table =
      report.table("throughput", "Throughput",
                   {{"arm", "arm", "", {}},
                    {"devices", "devices", "", {}},
                    {"requests_per_s", "requests", "1/s", kModelled},
                    {"closed_form_per_s", "at most, closed form", "1/s", kModelled},
                    {"tokens_per_s", "output", "tokens/s", kModelled, 0},
                    {"tokens_per_s_kusd", "output a price", "tokens/s/kUSD", kModelled, 1},
                    {"good_percent", "in target", "%", kModelled, 1},
                    {"goodput_per_s", "goodput", "1/s", kModelled}});
  for (const Run& run : runs) {
    const SimResult& r = run.result;
    table.add({std::string(to_string(run.kind)),
               fmt::format("{} + {}", run.mix.n_consumer, run.mix.n_datacenter), r.requests_per_s,
               model.rate(run.kind, run.mix), r.output_tokens_per_s,
               r.output_tokens_per_s / (model.price_usd(run.kind, run.mix) / 1000),
               100 * r.good_share, r.goodput_per_s});
    if (r.n_refused + r.n_too_large > 0) {
      table.note(fmt::format("{}: {} requests found the queue full, {} never fit.",
                             to_string(run.kind), r.n_refused, r.n_too_large));
    }
  }
  table.note(
      fmt::format("Devices: consumer + datacenter. Target: first token in {} ms, each further "
                  "one in {} ms on average.",
                  options.latency.ttft_ms, options.latency.tpot_ms));
}

void add_lanes(Report& report, const std::vector<Run>& runs) {
  Report::Table& table = report.table("lanes", "What each device did, as shares of the time",
                                      {{"arm", "arm", "", {}},
                                       {"lane", "device", "", {}},
                                       {"encode_percent", "vision", "%", kModelled, 1},
                                       {"step_percent", "language", "%", kModelled, 1},
                                       {"stolen_percent", "of it stolen", "%", kModelled, 1},
                                       {"copy_percent", "copies", "%", kModelled, 2},
                                       {"busy_percent", "busy", "%", kModelled, 1}});
  for (const Run& run : runs) {
    for (const SimLane& lane : run.result.lanes) {
      const double all = run.result.total_us / 100;
      table.add({std::string(to_string(run.kind)), lane.name, lane.encode_us / all,
                 lane.step_us / all, lane.stolen_us / all, lane.copy_us / all,
                 lane.busy_us() / all});
    }
  }
}

void add_counts(Report& report, const std::vector<Run>& runs) {
  Report::Table& table = report.table("counts", "What moved",
                                      {{"arm", "arm", "", {}},
                                       {"embedding_mib", "embeddings", "MiB", kModelled, 0},
                                       {"kv_mib", "keys and values", "MiB", kModelled, 0},
                                       {"steals", "stolen", "requests", kModelled, 0},
                                       {"returns", "given back", "requests", kModelled, 0},
                                       {"preemptions", "preempted", "sequences", kModelled, 0},
                                       {"batch", "in a step", "sequences", kModelled, 1}});
  for (const Run& run : runs) {
    const SimResult& r = run.result;
    constexpr double kMib = 1 << 20;
    table.add(
        {std::string(to_string(run.kind)), static_cast<double>(r.embedding_bytes) / kMib,
         static_cast<double>(r.kv_bytes) / kMib, r.steals, r.returns, r.preemptions,
         static_cast<double>(r.step_parts) / static_cast<double>(std::max<int64_t>(r.steps, 1))});
  }
}

Status make_report(Report& report, const PlanOptions& options) {
  const auto inputs = load_plan_inputs(options);
  if (!inputs) return std::unexpected(inputs.error());
  const auto& [shape, catalogue, workload, devices, profile] = *inputs;
  const auto sim_options = simulation_options(options, workload.workload, catalogue);
  if (!sim_options) return std::unexpected(sim_options.error());
  const auto kinds = wanted_arms(options.simulate.arms);
  if (!kinds) return std::unexpected(kinds.error());
  if (sim_options->timeline && kinds->size() != 1) {
    return fail(ErrorKind::kInvalidArgument, "--trace: name one --arm", {}, "--trace");
  }
  const ArmModel model(shape, workload.workload, sim_options->limits, devices.consumer,
                       devices.datacenter, catalogue.link);
  std::vector<Run> runs;
  for (const ArmKind kind : *kinds) {
    const Mix mix = mix_of(kind, options.devices);
    auto result = simulate(model.arm(kind, mix), shape, workload.workload, *sim_options);
    if (!result && kinds->size() > 1 && result.error().code == "does_not_fit") {
      report.note(fmt::format("{} is left out: {}.", to_string(kind), result.error().message));
      continue;
    }
    if (!result) return std::unexpected(result.error());
    runs.push_back({kind, mix, *std::move(result)});
  }
  report.note(fmt::format("Requests: {} Seed {}, {} arrivals.", workload.told,
                          options.simulate.seed, options.simulate.arrivals));
  report.note(
      "Simulated with this program's scheduler on modelled devices; decoding and scaling "
      "pictures on the CPU, the network and the caches of prefixes and embeddings are left out.");
  if (profile) add_profile_table(report, *profile);
  add_throughput(report, runs, model, options);
  add_latency(report, runs);
  add_lanes(report, runs);
  add_counts(report, runs);
  if (!sim_options->timeline || runs.empty()) return {};
  const SimResult& traced = runs.front().result;
  return write_text_file(options.simulate.trace,
                         chrome_trace(traced.timeline, std::llround(traced.total_us)), "--trace");
}

}  // namespace

int simulate_command(const PlanOptions& options) {
  Report report("simulate");
  if (const Status made = make_report(report, options); !made) return plan_failure(made.error());
  return print_report(report, options.json);
}

}  // namespace hs
