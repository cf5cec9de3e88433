// The simulator against the engine: two CPU devices of one core each are measured, then serve eight
// workloads, and the simulator says from the measured times alone what they should have done.
//
//   hs_bench_truth MODEL --profile FILE [--calibrate SECONDS] [--rounds N] [--workload N]...
//   [--each]
//
// --calibrate measures the devices anew before each round, so that a machine that changes its pace
// changes it for both, and writes the profile (with 0 rounds, that is all); without it the file is
// read. Prints a table of the rounds' medians and, last, one line of JSON.
// Fails (1) only when something cannot be run: a miss is a number, not a failure.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "app/bench_report.h"
#include "app/calibrate.h"
#include "bench/tiers_run.h"
#include "bench/timing.h"
#include "plan/measured_times.h"
#include "plan/simulator.h"

namespace {

struct Options {
  std::string model;
  std::string profile;
  double calibrate_s = 0;
  int rounds = 1;
  std::vector<size_t> workloads;  // empty: all
  bool each = false;              // print every request, to see where a miss comes from
};

struct Load {
  std::string name;
  double length_s = 0;  // of open arrivals; 0: closed
  size_t at_once = SIZE_MAX;
};

const std::vector<hs::TiersArm> kArms = {
    {"modality, stealing off", hs::Partition::kModality, hs::StealMode::kOff},
    {"modality, stealing on", hs::Partition::kModality, hs::StealMode::kOn},
    {"stage", hs::Partition::kStage, hs::StealMode::kOff},
    {"colocated", hs::Partition::kColocated, hs::StealMode::kOff},
};
// The first leaves devices idle now and then, the second never.
const std::vector<Load> kLoads = {{"arriving over 20 s", 20, SIZE_MAX}, {"12 at once", 0, 12}};

[[noreturn]] void give_up(std::string_view why) {
  fmt::print(stderr, "bench: {}\n", why);
  std::exit(1);
}

template <typename T>
T must(hs::Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}

hs::Profile calibrate(hs::TiersBench& bench, const Options& options) {
  const hs::EngineConfig config = hs::TiersBench::engine_config(kArms.front());
  hs::CalibrationOptions what;
  what.model_path = options.model;
  what.max_num_seqs = config.max_num_seqs;
  what.max_num_batched_tokens = config.max_num_batched_tokens;
  what.max_encode_images = config.max_encode_images;
  what.kv_blocks = config.kv_blocks;
  what.seconds = options.calibrate_s;
  what.progress = [](const std::string& told) { fmt::print(stderr, "{}\n", told); };
  const hs::Profile profile = must(hs::calibrate(bench.devices(), what));
  std::ofstream(options.profile) << hs::profile_toml(profile);
  return profile;
}

hs::Profile read(const Options& options) {
  std::ifstream file(options.profile, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return must(hs::read_profile(text, options.profile));
}

struct Outcome {
  double tokens_s = 0;
  double ttft_ms = 0;  // p50 of all requests
  double steals = 0;
  std::vector<double> each_ttft_ms = {};  // in the order of arrival
};

class Truth {
 public:
  Truth(hs::TiersBench& bench, const Options& options, const hs::Profile& profile)
      : bench_(bench), shape_(must(hs::read_model_config(std::filesystem::path(options.model)))) {
    if (hs::Status same = profile.check_model(shape_); !same) give_up(same.error().message);
    for (const hs::ProfiledDevice& device : profile.devices) {
      hs::Card card;
      card.key = card.name = device.name;
      devices_.emplace_back(shape_, card, std::make_shared<hs::MeasuredTimes>(profile, device));
    }
    const hs::TrafficOptions what{.seed = 3, .n_bursts = 6, .n_text = 45};
    traffic_ = must(hs::make_traffic(bench.any_model(), what));
  }

  const hs::Arrival& request(size_t index) const { return traffic_[index]; }

  Outcome serve(const hs::TiersArm& arm, const Load& load) {
    const hs::TiersRun run = must(bench_.run(arm, traffic_, load.length_s, load.at_once));
    if (!run.failure.empty()) give_up(arm.name + ": " + run.failure);
    Outcome outcome{static_cast<double>(run.output_tokens) / run.seconds,
                    hs::percentile(run.any_first_token_us, 0.5) * 1e-3,
                    static_cast<double>(run.stats.steals)};
    for (const double us : run.any_first_token_us) outcome.each_ttft_ms.push_back(us * 1e-3);
    return outcome;
  }

  // The same requests at the same times on devices that take what they were measured to take.
  Outcome simulate(const hs::TiersArm& arm, const Load& load) const {
    hs::Workload workload;
    for (const hs::Arrival& arrival : traffic_) {
      const hs::Prompt& prompt = arrival.request.prompt;
      hs::RequestShape one;
      for (const hs::ImageSpan& span : prompt.spans) one.image_rows.push_back(span.count);
      one.text_tokens = static_cast<int32_t>(prompt.token_ids.size()) - one.n_prompt();
      one.output_tokens = arrival.request.max_tokens;
      workload.requests.push_back(std::move(one));
      workload.arrivals_us.push_back(std::llround(arrival.at * load.length_s * 1e6));
    }
    const hs::EngineConfig config = hs::TiersBench::engine_config(arm);
    hs::SimOptions options;
    options.limits = {.max_num_seqs = config.max_num_seqs,
                      .max_num_batched_tokens = config.max_num_batched_tokens,
                      .max_encode_images = config.max_encode_images,
                      .embedding_rows = config.embedding_cache_rows,
                      .max_queue = config.max_queue};
    options.steal_delay_us = config.steal_delay_us;
    options.steal_pause_us = config.steal_pause_us;
    options.warmup_share = 0;
    options.n_requests = std::ssize(workload.requests);
    options.in_order = true;
    options.each = true;
    const bool open = load.length_s > 0;
    options.arrivals = open ? hs::ArrivalProcess::kReplay : hs::ArrivalProcess::kSaturated;
    if (!open) options.concurrency = static_cast<int32_t>(load.at_once);
    const hs::SimArm sim{.name = arm.name,
                         .consumer = {devices_[0]},
                         .datacenter = {devices_[1]},
                         .partition = arm.partition,
                         .steal = arm.steal,
                         .overlap = arm.overlap};
    const hs::SimResult result = must(hs::simulate(sim, shape_, workload, options));
    // A replay's clock starts with the first arrival, the bench's with the traffic.
    const double late_us = open ? static_cast<double>(workload.arrivals_us.front()) : 0;
    Outcome outcome{static_cast<double>(result.total_tokens) * 1e6 / (result.total_us + late_us), 0,
                    static_cast<double>(result.steals)};
    outcome.each_ttft_ms.assign(result.each_ttft_ms.begin(), result.each_ttft_ms.end());
    outcome.ttft_ms = hs::percentile(outcome.each_ttft_ms, 0.5);
    return outcome;
  }

 private:
  hs::TiersBench& bench_;
  hs::ModelShape shape_;
  std::vector<hs::DeviceModel> devices_;  // consumer, datacenter
  std::vector<hs::Arrival> traffic_;
};

double off_percent(double simulated, double real) {
  return 100 * (simulated / real - 1);
}

std::string told(double off, double most) {
  return fmt::format("{:+.1f} %{}", off, std::abs(off) <= most ? "" : " MISSED");
}

void print_each(const Truth& truth, const Outcome& served, const Outcome& simulated) {
  for (size_t i = 0; i < served.each_ttft_ms.size(); ++i) {
    const hs::Arrival& one = truth.request(i);
    fmt::print(stderr,
               "{:>3} at {:.4f}, {} pictures, {:>3} tokens: first token {:7.1f} ms, {:7.1f} "
               "simulated\n",
               i, one.at, one.request.prompt.spans.size(), one.request.prompt.token_ids.size(),
               served.each_ttft_ms[i],
               i < simulated.each_ttft_ms.size() ? simulated.each_ttft_ms[i] : 0);
  }
}

// One workload, a value of each kind a round.
struct Compared {
  const hs::TiersArm& arm;
  const Load& load;
  std::vector<double> tokens_s = {}, simulated_tokens_s = {}, tokens_off = {};
  std::vector<double> ttft_ms = {}, simulated_ttft_ms = {}, ttft_off = {};
  std::vector<double> steals = {}, simulated_steals = {};

  void add(const Outcome& served, const Outcome& simulated) {
    tokens_s.push_back(served.tokens_s);
    simulated_tokens_s.push_back(simulated.tokens_s);
    tokens_off.push_back(off_percent(simulated.tokens_s, served.tokens_s));
    ttft_ms.push_back(served.ttft_ms);
    simulated_ttft_ms.push_back(simulated.ttft_ms);
    ttft_off.push_back(off_percent(simulated.ttft_ms, served.ttft_ms));
    steals.push_back(served.steals);
    simulated_steals.push_back(simulated.steals);
  }
};

double median(const std::vector<double>& values) {
  return hs::summarize(values).median;
}

std::vector<Compared> chosen_workloads(const Options& options) {
  std::vector<Compared> chosen;
  size_t number = 0;
  for (const Load& load : kLoads) {
    for (const hs::TiersArm& arm : kArms) {
      const auto& wanted = options.workloads;
      if (wanted.empty() || std::ranges::find(wanted, number) != wanted.end())
        chosen.push_back({.arm = arm, .load = load});
      ++number;
    }
  }
  return chosen;
}

void print_table(const std::vector<Compared>& all) {
  fmt::print(
      "| workload | load | output tokens/s served | simulated | off | p50 first token served, "
      "ms | simulated | off | stolen served / simulated |\n| --- | --- | --- | --- | --- | "
      "--- | --- | --- | --- |\n");
  for (const Compared& one : all) {
    fmt::print("| {} | {} | {:.1f} | {:.1f} | {} | {:.0f} | {:.0f} | {} | {:.0f} / {:.0f} |\n",
               one.arm.name, one.load.name, median(one.tokens_s), median(one.simulated_tokens_s),
               told(median(one.tokens_off), 10), median(one.ttft_ms), median(one.simulated_ttft_ms),
               told(median(one.ttft_off), 20), median(one.steals), median(one.simulated_steals));
  }
}

std::string json(const std::vector<Compared>& all) {
  std::string text;
  for (const Compared& one : all) {
    text += fmt::format(
        "{}{{\"arm\": \"{}\", \"load\": \"{}\", \"tokens_s\": [{:.5g}], "
        "\"simulated_tokens_s\": [{:.5g}], \"ttft_p50_ms\": [{:.5g}], "
        "\"simulated_ttft_p50_ms\": [{:.5g}]}}",
        text.empty() ? "" : ", ", one.arm.name, one.load.name, fmt::join(one.tokens_s, ", "),
        fmt::join(one.simulated_tokens_s, ", "), fmt::join(one.ttft_ms, ", "),
        fmt::join(one.simulated_ttft_ms, ", "));
  }
  return text;
}

int run(const Options& options) {
  hs::TiersBench bench = must(hs::TiersBench::open(options.model, hs::DType::kBF16));
  std::vector<Compared> all = chosen_workloads(options);
  std::vector<double> crowding;
  for (int round = 0; round < std::max(1, options.rounds); ++round) {
    const hs::Profile profile = options.calibrate_s > 0 ? calibrate(bench, options) : read(options);
    crowding.push_back(profile.crowding);
    if (options.rounds == 0) break;
    Truth truth(bench, options, profile);
    for (Compared& one : all) {
      fmt::print(stderr, "round {} of {}: {}, {}\n", round + 1, options.rounds, one.arm.name,
                 one.load.name);
      const Outcome simulated = truth.simulate(one.arm, one.load);
      const Outcome served = truth.serve(one.arm, one.load);
      if (options.each) print_each(truth, served, simulated);
      one.add(served, simulated);
    }
  }
  if (options.rounds > 0) print_table(all);
  fmt::print(
      "{{\"bench\": \"truth\", \"rounds\": {}, \"crowding\": [{:.4f}], \"workloads\": [{}]}}\n",
      options.rounds, fmt::join(crowding, ", "), options.rounds > 0 ? json(all) : "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--profile" && has_value) {
      options.profile = argv[++i];
    } else if (argument == "--calibrate" && has_value) {
      options.calibrate_s = std::atof(argv[++i]);
    } else if (argument == "--rounds" && has_value) {
      options.rounds = std::max(0, std::atoi(argv[++i]));
    } else if (argument == "--workload" && has_value) {
      options.workloads.push_back(static_cast<size_t>(std::max(0, std::atoi(argv[++i]))));
    } else if (argument == "--each") {
      options.each = true;
    } else {
      options.model = argument;
    }
  }
  if (options.model.empty() || options.profile.empty()) {
    fmt::print(stderr,
               "usage: hs_bench_truth MODEL --profile FILE [--calibrate SECONDS] [--rounds N] "
               "[--workload N]... [--each]\n");
    return 2;
  }
  return run(options);
}
