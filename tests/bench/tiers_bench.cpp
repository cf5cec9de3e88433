// What two tiers are worth: the same traffic through every partition and through work stealing off,
// on and auto, on two CPU devices of one core each.
//
//   hs_bench_tiers MODEL [--dtype bfloat16|float32] [--rounds N] [--length SECONDS] [--trace
//   FOLDER]
//
// The arms take turns, round by round, and are compared within a round, since a shared machine
// drifts. Fails (1) when a request fails, outputs differ between arms, or bytes moved between
// devices are not what the formulas say. Prints a table and, last, one line of JSON. No HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/chrome_trace.h"
#include "app/bench_report.h"
#include "bench/tiers_run.h"
#include "bench/timing.h"

namespace {

struct Options {
  std::string model;
  hs::DType dtype = hs::DType::kBF16;
  int rounds = 5;
  double length_s = 0;  // 0: a part of what the slowest arm needs
  std::string trace;
};

const std::vector<hs::TiersArm> kArms = {
    {"modality, stealing off", hs::Partition::kModality, hs::StealMode::kOff},
    {"modality, stealing on", hs::Partition::kModality, hs::StealMode::kOn},
    {"modality, stealing auto", hs::Partition::kModality, hs::StealMode::kAuto},
    {"stage", hs::Partition::kStage, hs::StealMode::kOff},
    {"colocated", hs::Partition::kColocated, hs::StealMode::kOff},
};
constexpr std::string_view kKeys[] = {"steal_off", "steal_on", "steal_auto", "stage", "colocated"};
constexpr size_t kOff = 0;
constexpr size_t kOn = 1;
constexpr size_t kAuto = 2;

// Requests of four pictures each, one after another.
const std::vector<hs::TiersArm> kOverlapArms = {
    {"overlap off", hs::Partition::kModality, hs::StealMode::kOff, false},
    {"overlap on", hs::Partition::kModality, hs::StealMode::kOff, true},
};

[[noreturn]] void give_up(std::string_view why) {
  fmt::print(stderr, "bench: {}\n", why);
  std::exit(1);
}

template <typename T>
T must(hs::Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}

// All rounds of one arm.
struct Series {
  std::vector<hs::TiersRun> runs;

  std::vector<double> each(auto&& value) const {
    std::vector<double> values;
    for (const hs::TiersRun& run : runs) values.push_back(value(run));
    return values;
  }
  hs::Samples of(auto&& value) const { return hs::summarize(each(value)); }
  std::vector<double> pooled(std::vector<double> hs::TiersRun::* field) const {
    std::vector<double> all;
    for (const hs::TiersRun& run : runs)
      all.insert(all.end(), (run.*field).begin(), (run.*field).end());
    return all;
  }
};

double tokens_per_s(const hs::TiersRun& run) {
  return static_cast<double>(run.output_tokens) / run.seconds;
}

int64_t moved_bytes(const hs::TiersRun& run) {
  return run.stats.transfer_bytes + run.stats.kv_transfer_bytes;
}

void check(const hs::TiersArm& arm, const hs::TiersRun& run, uint64_t text_hash) {
  if (!run.failure.empty()) give_up(arm.name + ": " + run.failure);
  if (run.text_hash != text_hash) give_up(arm.name + ": outputs differ from those of other arms");
  const int64_t moved = moved_bytes(run);
  const bool exact = run.expected_bytes < 0 ||
                     (moved == run.expected_bytes && run.request_bytes == run.expected_bytes);
  if (!exact || run.timeline_bytes != moved)
    give_up(fmt::format("{}: {} bytes moved, {} by the timeline, {} by the requests, {} expected",
                        arm.name, moved, run.timeline_bytes, run.request_bytes,
                        run.expected_bytes));
}

// Every arm once a round, each round beginning with another.
std::vector<Series> play(hs::TiersBench& bench, const std::vector<hs::TiersArm>& arms,
                         const std::vector<hs::Arrival>& traffic, double length_s,
                         const Options& options) {
  std::vector<Series> series(arms.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < arms.size(); ++i) {
      const size_t arm = (i + static_cast<size_t>(round)) % arms.size();
      hs::TiersRun run = must(bench.run(arms[arm], traffic, length_s));
      const bool first = round == 0 && i == 0;
      check(arms[arm], run, first ? run.text_hash : series[0].runs.front().text_hash);
      fmt::print(stderr, "round {} {:<24} {:7.2f} s {:8.1f} tokens/s\n", round + 1, arms[arm].name,
                 run.seconds, tokens_per_s(run));
      if (!options.trace.empty())
        std::ofstream(std::filesystem::path(options.trace) / fmt::format("{}.json", arms[arm].name))
            << hs::chrome_trace(run.timeline, 0);
      run.timeline.clear();
      series[arm].runs.push_back(std::move(run));
    }
  }
  return series;
}

std::string json_of(const hs::Samples& s) {
  return fmt::format("{{\"median\": {:.4g}, \"min\": {:.4g}, \"max\": {:.4g}}}", s.median, s.low,
                     s.high);
}

// Within a round.
hs::Samples ratio(const Series& series, const Series& base, auto&& value) {
  std::vector<double> ratios;
  for (size_t i = 0; i < series.runs.size(); ++i)
    ratios.push_back(value(series.runs[i]) / value(base.runs[i]));
  return hs::summarize(std::move(ratios));
}

struct ArmReport {
  hs::Samples rate, gain, busy_consumer, busy_datacenter;
  double encode_p50_ms = 0, encode_p99_ms = 0, step_ms = 0, share_median = 0, share_p99 = 0;
  double megabytes = 0, steals = 0, returns = 0;
};

ArmReport report_of(const Series& arm, const Series& base) {
  ArmReport out;
  out.rate = arm.of(tokens_per_s);
  out.gain = ratio(arm, base, tokens_per_s);
  out.busy_consumer = arm.of([](const hs::TiersRun& r) { return r.busy[0]; });
  out.busy_datacenter = arm.of([](const hs::TiersRun& r) { return r.busy[1]; });
  const auto latency = arm.pooled(&hs::TiersRun::encode_latency_us);
  out.encode_p50_ms = hs::percentile(latency, 0.5) * 1e-3;
  out.encode_p99_ms = hs::percentile(latency, 0.99) * 1e-3;
  out.step_ms = arm.of([](const hs::TiersRun& r) { return r.longest_stolen_step_us; }).high * 1e-3;
  const auto share = arm.pooled(&hs::TiersRun::transfer_share);
  out.share_median = hs::percentile(share, 0.5);
  out.share_p99 = hs::percentile(share, 0.99);
  out.megabytes =
      arm.of([](const hs::TiersRun& r) { return static_cast<double>(moved_bytes(r)); }).median *
      1e-6;
  out.steals =
      arm.of([](const hs::TiersRun& r) { return static_cast<double>(r.stats.steals); }).median;
  out.returns =
      arm.of([](const hs::TiersRun& r) { return static_cast<double>(r.stats.steal_returns); })
          .median;
  return out;
}

std::string arm_json(std::string_view key, const ArmReport& r, const Series& arm) {
  const hs::TiersRun& run = arm.runs.front();
  return fmt::format(
      "\"{}\": {{\"tokens_s\": {}, \"over_off\": {}, \"busy_consumer\": {}, \"busy_datacenter\": "
      "{}, "
      "\"encode_p50_ms\": {:.2f}, \"encode_p99_ms\": {:.2f}, \"longest_stolen_step_ms\": {:.2f}, "
      "\"transfer_share_median\": {:.6f}, \"transfer_share_p99\": {:.6f}, \"moved_bytes\": {}, "
      "\"formula_bytes\": {}, \"steals\": {}, \"steal_returns\": {}}}",
      key, json_of(r.rate), json_of(r.gain), json_of(r.busy_consumer), json_of(r.busy_datacenter),
      r.encode_p50_ms, r.encode_p99_ms, r.step_ms, r.share_median, r.share_p99, moved_bytes(run),
      run.expected_bytes < 0 ? std::string("null") : std::to_string(run.expected_bytes), r.steals,
      r.returns);
}

void print_arm(std::string_view name, const ArmReport& r) {
  fmt::print(
      "{:<24} {:>8.1f} ({:.1f} to {:.1f})  {:>5.3f} ({:.3f} to {:.3f})  {:>4.0f}/{:<4.0f}  "
      "{:>8.1f} "
      "{:>8.1f}  {:>6.3f} {:>6.3f}  {:>9.3f}  {:>3.0f}/{:<3.0f}\n",
      name, r.rate.median, r.rate.low, r.rate.high, r.gain.median, r.gain.low, r.gain.high,
      100 * r.busy_consumer.median, 100 * r.busy_datacenter.median, r.encode_p50_ms,
      r.encode_p99_ms, 100 * r.share_median, 100 * r.share_p99, r.megabytes, r.steals, r.returns);
}

// Whether the aims are met, in words and as JSON.
std::string judge(const std::vector<ArmReport>& arms) {
  std::string json;
  const auto aim = [&](std::string_view name, double value, double bound, bool met) {
    fmt::print("{:<44} {:>9.4g}  aim {:.4g}  {}\n", name, value, bound, met ? "met" : "MISSED");
    json += fmt::format("{}\"{}\": {{\"value\": {:.5g}, \"aim\": {:.5g}, \"met\": {}}}",
                        json.empty() ? "" : ", ", name, value, bound, met);
  };
  for (const size_t arm : {kOn, kAuto}) {
    const std::string_view which = kKeys[arm];
    const double most = 1.05 * arms[kOff].encode_p99_ms + arms[arm].step_ms;
    aim(fmt::format("{}_tokens_s_over_off", which), arms[arm].gain.median, 1.13,
        arms[arm].gain.median >= 1.13);
    aim(fmt::format("{}_encode_p99_ms", which), arms[arm].encode_p99_ms, most,
        arms[arm].encode_p99_ms <= most);
  }
  double share = 0;
  for (const size_t arm : {kOff, kOn, kAuto}) share = std::max(share, arms[arm].share_median);
  aim("transfer_share_of_latency", share, 0.025, share < 0.025);
  return json;
}

std::string overlap_json(hs::TiersBench& bench, const Options& options) {
  hs::TrafficOptions four{
      .seed = 2, .n_bursts = 6, .burst_mean = 0, .n_text = 0, .pictures_per_request = 4};
  std::vector<hs::Arrival> traffic = must(hs::make_traffic(bench.any_model(), four));
  for (size_t i = 0; i < traffic.size(); ++i)
    traffic[i].at = static_cast<double>(i) / static_cast<double>(traffic.size());
  const hs::TiersRun alone = must(bench.run(kOverlapArms[0], traffic, 0));
  // Far enough apart that none waits for the one before.
  const auto series = play(bench, kOverlapArms, traffic, 1.5 * alone.seconds, options);
  const auto first_token_ms = [](const hs::TiersRun& run) {
    return hs::percentile(run.first_token_us, 0.5) * 1e-3;
  };
  const hs::Samples off = series[0].of(first_token_ms);
  const hs::Samples on = series[1].of(first_token_ms);
  const hs::Samples gain = ratio(series[0], series[1], first_token_ms);
  fmt::print(
      "four pictures, first token: {:.1f} ms without overlap, {:.1f} ms with, {:.3f} x "
      "({:.3f} to {:.3f})\n",
      off.median, on.median, gain.median, gain.low, gain.high);
  return fmt::format(
      "\"overlap\": {{\"off_ttft_ms\": {}, \"on_ttft_ms\": {}, \"off_over_on\": {}}}", json_of(off),
      json_of(on), json_of(gain));
}

int run_bench(const Options& options) {
  hs::TiersBench bench = must(hs::TiersBench::open(options.model, options.dtype));
  const hs::TrafficOptions what;
  const auto traffic = must(hs::make_traffic(bench.any_model(), what));
  const hs::TiersRun backlog = must(bench.run(kArms[kOff], traffic, 0));
  if (!backlog.failure.empty()) give_up(backlog.failure);
  // Faster than the language device alone could answer, slower than both together.
  const double length_s = options.length_s > 0 ? options.length_s : 0.6 * backlog.seconds;
  fmt::print("{} requests ({} pictures) in {:.1f} s, seed {}; vision share of the work {:.3f}\n",
             traffic.size(), backlog.stats.images_encoded, length_s, what.seed,
             backlog.vision_share);
  const auto series = play(bench, kArms, traffic, length_s, options);

  fmt::print("{:<24} {:<28} {:<24} {:<9}  {:<18} {:<14} {:<10} {}\n", "", "output tokens/s",
             "over stealing off", "busy %", "encode p50 p99 ms", "transfer %", "MB moved",
             "stolen/returned");
  std::string json = fmt::format(
      "{{\"bench\": \"tiers\", \"rounds\": {}, \"seed\": {}, \"requests\": {}, \"pictures\": {}, "
      "\"length_s\": {:.2f}, \"vision_share\": {:.4f}",
      options.rounds, what.seed, traffic.size(), backlog.stats.images_encoded, length_s,
      backlog.vision_share);
  std::vector<ArmReport> reports;
  for (size_t i = 0; i < kArms.size(); ++i) {
    reports.push_back(report_of(series[i], series[kOff]));
    print_arm(kArms[i].name, reports[i]);
    json += ", " + arm_json(kKeys[i], reports[i], series[i]);
  }
  json += ", " + overlap_json(bench, options);
  json += ", \"aims\": {" + judge(reports) + "}}";
  fmt::print("{}\n", json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--dtype" && has_value) {
      options.dtype = std::string_view(argv[++i]) == "float32" ? hs::DType::kF32 : hs::DType::kBF16;
    } else if (argument == "--rounds" && has_value) {
      options.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--length" && has_value) {
      options.length_s = std::atof(argv[++i]);
    } else if (argument == "--trace" && has_value) {
      options.trace = argv[++i];
    } else {
      options.model = argument;
    }
  }
  if (options.model.empty()) {
    fmt::print(stderr,
               "usage: hs_bench_tiers MODEL [--dtype bfloat16|float32] [--rounds N] [--length "
               "SECONDS] [--trace FOLDER]\n");
    return 2;
  }
  return run_bench(options);
}
