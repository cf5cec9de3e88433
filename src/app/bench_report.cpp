#include "app/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "api/json_writer.h"
#include "kernels/isa.h"

namespace hs {
namespace {

// The counters that the report shows.
EngineStats difference(const EngineStats& before, const EngineStats& after) {
  EngineStats counted;
  counted.images_encoded = after.images_encoded - before.images_encoded;
  counted.steps = after.steps - before.steps;
  counted.preemptions = after.preemptions - before.preemptions;
  counted.steals = after.steals - before.steals;
  counted.transfer_bytes = after.transfer_bytes - before.transfer_bytes;
  counted.kv_transfer_bytes = after.kv_transfer_bytes - before.kv_transfer_bytes;
  counted.all_reduce_bytes = after.all_reduce_bytes - before.all_reduce_bytes;
  for (size_t i = 0; i < after.lanes.size(); ++i) {
    LaneStats lane = after.lanes[i];
    lane.encode_us -= before.lanes[i].encode_us;
    lane.transfer_us -= before.lanes[i].transfer_us;
    lane.step_us -= before.lanes[i].step_us;
    lane.stolen_us -= before.lanes[i].stolen_us;
    counted.lanes.push_back(std::move(lane));
  }
  return counted;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void append_member(std::string& out, std::string_view key, std::string_view text) {
  out += fmt::format(R"("{}":)", key);
  append_json_string(out, text);
  out += ',';
}

}  // namespace

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

BenchReport::BenchReport(BenchFacts facts, const Played& played, const EngineStats& before,
                         const EngineStats& after)
    : facts_(std::move(facts)),
      seconds_(played.seconds),
      n_requests_(played.requests.size()),
      times_{{"ttft_ms", "first token", {}},
             {"itl_ms", "next token", {}},
             {"latency_ms", "whole answer", {}},
             {"encode_ms", "encoding pictures", {}},
             {"transfer_ms", "moving embeddings", {}},
             {"kv_transfer_ms", "moving keys and values", {}}},
      counted_(difference(before, after)) {
  for (const PlayedRequest& request : played.requests) {
    const RequestTimings& timings = request.timings;
    const int64_t us[] = {timings.first_token_us, -1,
                          timings.total_us,       timings.encode_us,
                          timings.transfer_us,    timings.kv_transfer_us};
    for (size_t i = 0; i < times_.size(); ++i) {
      if (us[i] >= 0) times_[i].ms.push_back(static_cast<double>(us[i]) * 1e-3);
    }
    for (const double gap_us : request.gaps_us) times_[1].ms.push_back(gap_us * 1e-3);
    prompt_tokens_ += request.usage.prompt_tokens;
    image_tokens_ += request.usage.image_tokens;
    cached_tokens_ += request.usage.cached_tokens;
    output_tokens_ += request.usage.completion_tokens;
  }
}

std::string BenchReport::table() const {
  std::string out = fmt::format("{:<24} {:>10} {:>10} {:>10} {:>10}\n", "milliseconds", "mean",
                                "p50", "p90", "p99");
  for (const Times& times : times_) {
    if (times.ms.empty()) continue;
    out += fmt::format("{:<24} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", times.title,
                       mean(times.ms), percentile(times.ms, 0.5), percentile(times.ms, 0.9),
                       percentile(times.ms, 0.99));
  }
  out += fmt::format("\n{:<24} {:>10} {:>10} {:>10} {:>12} {:>10}\n", "% of the time", "encode",
                     "transfer", "language", "stolen", "busy");
  for (const LaneStats& lane : counted_.lanes) {
    const auto share = [&](int64_t us) { return static_cast<double>(us) * 1e-4 / seconds_; };
    out +=
        fmt::format("{:<24} {:>10.1f} {:>10.1f} {:>10.1f} {:>12.1f} {:>10.1f}\n", lane.device,
                    share(lane.encode_us), share(lane.transfer_us), share(lane.step_us),
                    share(lane.stolen_us), share(lane.encode_us + lane.transfer_us + lane.step_us));
  }
  out += fmt::format(
      "\n{} requests in {:.2f} s: {:.1f} output tokens/s, {:.1f} prompt tokens/s, {:.2f} "
      "requests/s, {:.2f} pictures/s\n",
      n_requests_, seconds_, rate_of(output_tokens_), rate_of(prompt_tokens_),
      rate_of(static_cast<int64_t>(n_requests_)), rate_of(counted_.images_encoded));
  out += fmt::format(
      "prompts: {} tokens, {} of pictures, {} from the prefix cache; moved: {} bytes of "
      "embeddings, {} of keys and values, {} between devices that share the language model; {} "
      "steps, "
      "{} requests stolen, {} preempted\n",
      prompt_tokens_, image_tokens_, cached_tokens_, counted_.transfer_bytes,
      counted_.kv_transfer_bytes, counted_.all_reduce_bytes, counted_.steps, counted_.steals,
      counted_.preemptions);
  return out;
}

std::string BenchReport::json() const {
  std::string out = R"({"bench":"engine",)";
  append_member(out, "model", facts_.model);
  append_member(out, "dtype", facts_.dtype);
  append_member(out, "isa", isa_name(cpu_isa()));
  append_member(out, "partition", facts_.partition);
  append_member(out, "cut", facts_.cut);
  const auto at = std::back_inserter(out);
  fmt::format_to(
      at,
      R"("tensor_parallel":{},"seed":{},"at_once":{},"rate":{:.6g},"requests":{},"pictures":{},"seconds":{:.6g},)"
      R"("prompt_tokens":{},"image_tokens":{},"cached_tokens":{},"output_tokens":{},)"
      R"("output_tokens_s":{:.6g},"prompt_tokens_s":{:.6g},"requests_s":{:.6g},)"
      R"("pictures_s":{:.6g},"transfer_bytes":{},"kv_transfer_bytes":{},)"
      R"("collective_bytes":{},"steals":{},)"
      R"("preemptions":{},"steps":{})",
      facts_.tensor_parallel, facts_.seed, facts_.at_once, facts_.rate, n_requests_,
      counted_.images_encoded, seconds_, prompt_tokens_, image_tokens_, cached_tokens_,
      output_tokens_, rate_of(output_tokens_), rate_of(prompt_tokens_),
      rate_of(static_cast<int64_t>(n_requests_)), rate_of(counted_.images_encoded),
      counted_.transfer_bytes, counted_.kv_transfer_bytes, counted_.all_reduce_bytes,
      counted_.steals, counted_.preemptions, counted_.steps);
  for (const Times& times : times_) {
    if (times.ms.empty()) {
      fmt::format_to(at, R"(,"{}":null)", times.key);
      continue;
    }
    fmt::format_to(at, R"(,"{}":{{"mean":{:.6g},"p50":{:.6g},"p90":{:.6g},"p99":{:.6g}}})",
                   times.key, mean(times.ms), percentile(times.ms, 0.5), percentile(times.ms, 0.9),
                   percentile(times.ms, 0.99));
  }
  out += R"(,"devices":[)";
  for (const LaneStats& lane : counted_.lanes) {
    fmt::format_to(
        at, R"({}{{"device":"{}","encode_us":{},"transfer_us":{},"step_us":{},"stolen_us":{}}})",
        &lane == counted_.lanes.data() ? "" : ",", lane.device, lane.encode_us, lane.transfer_us,
        lane.step_us, lane.stolen_us);
  }
  return out + "]}";
}

}  // namespace hs
