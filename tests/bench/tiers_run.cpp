#include "bench/tiers_run.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "app/bench_play.h"
#include "base/clock.h"
#include "device/cpu/cpu_devices.h"

namespace hs {
namespace {

// Rows of pictures times their width, or, for the stage split, 2 * layers * KV heads * d_head *
// prompt tokens, times the bytes of a value.
int64_t expected_bytes(const TiersArm& arm, const ModelSpec& spec, const Device& device,
                       std::span<const Arrival> traffic) {
  if (arm.partition == Partition::kColocated) return 0;
  if (arm.steal != StealMode::kOff) return -1;
  int64_t image_rows = 0;
  int64_t prompt_tokens = 0;
  for (const Arrival& arrival : traffic) {
    prompt_tokens += std::ssize(arrival.request.prompt.token_ids);
    for (const ImageSpan& span : arrival.request.prompt.spans) image_rows += span.count;
  }
  const KvLayout& kv = spec.kv_layout;
  return arm.partition == Partition::kStage
             ? int64_t{2} * spec.n_layers * kv.n_kv_heads * kv.d_head * prompt_tokens *
                   static_cast<int64_t>(dtype_bytes(kv.dtype))
             : image_rows * spec.tower_dim() *
                   static_cast<int64_t>(dtype_bytes(device.activation_dtype()));
}

// What the timeline says: when pictures were encoded first, how long stolen steps took.
void read_timeline(TiersRun& run, const std::unordered_map<RequestId, int64_t>& submitted_us) {
  std::unordered_set<RequestId> encoded;
  for (const LaneTimeline& lane : run.timeline) {
    if (lane.entries.size() == Timeline::kEntries)
      run.failure = "the traffic is too long: the timeline has lost its first orders";
    for (const TimelineEntry& entry : lane.entries) {
      const auto duration_us = static_cast<double>(entry.finished_us - entry.started_us);
      run.timeline_bytes += entry.bytes;
      if (entry.kind == WorkOrder::Kind::kEncode && encoded.insert(entry.request).second)
        run.encode_latency_us.push_back(
            static_cast<double>(entry.finished_us - submitted_us.at(entry.request)));
      if (entry.stolen)
        run.longest_stolen_step_us = std::max(run.longest_stolen_step_us, duration_us);
    }
  }
}

void read_lanes(TiersRun& run, const std::vector<Device*>& order) {
  double encode_us = 0, all_us = 0;
  for (const LaneStats& lane : run.stats.lanes) {
    const auto busy_us = static_cast<double>(lane.encode_us + lane.transfer_us + lane.step_us);
    encode_us += static_cast<double>(lane.encode_us);
    all_us += busy_us;
    for (size_t i = 0; i < order.size(); ++i) {
      if (to_string(order[i]->id()) == lane.device) run.busy[i] = busy_us * 1e-6 / run.seconds;
    }
  }
  run.vision_share = encode_us / all_us;
}

void read_request(TiersRun& run, const PlayedRequest& request, bool has_pictures) {
  const RequestTimings& timings = request.timings;
  run.output_tokens += request.n_tokens;
  run.text_hash = run.text_hash * 1'000'003 + std::hash<std::string>{}(request.text);
  run.request_bytes += timings.transfer_bytes + timings.kv_transfer_bytes;
  if (request.error) run.failure = request.error->message;
  if (timings.transfer_us >= 0 || timings.kv_transfer_us >= 0) {
    const int64_t moving_us =
        std::max<int64_t>(timings.transfer_us, 0) + std::max<int64_t>(timings.kv_transfer_us, 0);
    run.transfer_share.push_back(static_cast<double>(moving_us) /
                                 static_cast<double>(timings.total_us));
  }
  run.any_first_token_us.push_back(static_cast<double>(timings.first_token_us));
  if (has_pictures) run.first_token_us.push_back(static_cast<double>(timings.first_token_us));
}

}  // namespace

Result<TiersBench> TiersBench::open(const std::string& model_path, DType dtype) {
  const auto places = process_core_places();
  if (places.size() < 2) return fail(ErrorKind::kInvalidArgument, "two devices need two cores");
  TiersBench bench;
  bench.path_ = model_path;
  bench.dtype_ = dtype;
  int index = 0;
  for (const std::vector<int>& cores : split_cores(places, 2)) {
    auto device = make_cpu_device({.index = index++, .threads = 1, .cores = {cores.front()}});
    if (!device) return std::unexpected(device.error());
    bench.devices_.push_back(std::move(*device));
  }
  Device* any = bench.devices_.front().get();
  auto model = bench.load({any}, {any});
  if (!model) return std::unexpected(model.error());
  bench.prompts_ = std::make_unique<Model>(std::move(*model));
  return bench;
}

Result<Model> TiersBench::load(const std::vector<Device*>& towers,
                               const std::vector<DeviceGroup>& languages) {
  LoadOptions options;
  options.path = path_;
  options.dtype = dtype_;
  options.vision_devices = towers;
  options.language_devices = languages;
  return load_model(options);
}

EngineConfig TiersBench::engine_config(const TiersArm& arm) {
  EngineConfig config;
  config.kv_blocks = 2048;
  config.max_num_seqs = 16;
  config.max_num_batched_tokens = 256;
  config.max_encode_images = 1;  // so that each encode order is one picture's
  config.prefix_cache = false;
  config.overlap = arm.overlap;
  config.steal_pause_us = 2'000'000;  // as the server's
  config.steal = arm.steal;
  return config;
}

std::vector<Device*> TiersBench::devices() const {
  std::vector<Device*> result;
  for (const auto& device : devices_) result.push_back(device.get());
  return result;
}

Result<TiersRun> TiersBench::run(const TiersArm& arm, std::span<const Arrival> traffic,
                                 double length_s, size_t at_once) {
  Device* consumer = devices_[0].get();
  Device* datacenter = devices_[1].get();
  const Placement placement =
      place({consumer}, {datacenter}, arm.partition, arm.steal != StealMode::kOff);
  auto model = load(placement.tower_devices, placement.language_devices);
  if (!model) return std::unexpected(model.error());
  const SystemClock clock;
  WakeUp wake;
  auto engine = Engine::create(*model, make_topology(*model, placement), engine_config(arm), clock,
                               [&wake] { wake.notify(); });
  if (!engine) return std::unexpected(engine.error());

  std::vector<GenerateRequest> requests;
  Schedule schedule{.at_once = at_once};
  for (const Arrival& arrival : traffic) {
    requests.push_back(arrival.request);
    if (length_s > 0) schedule.due_s.push_back(arrival.at * length_s);
  }
  const auto played = play(**engine, clock, wake, requests, schedule);
  if (!played) return std::unexpected(played.error());

  TiersRun run;
  run.seconds = played->seconds;
  run.stats = (*engine)->stats();
  run.timeline = (*engine)->timeline();
  run.expected_bytes = expected_bytes(arm, model->spec, *consumer, traffic);
  std::unordered_map<RequestId, int64_t> submitted_us;
  for (size_t i = 0; i < traffic.size(); ++i) {
    const PlayedRequest& request = played->requests[i];
    read_request(run, request, !requests[i].prompt.spans.empty());
    submitted_us.emplace(request.id, request.submitted_us);
  }
  read_timeline(run, submitted_us);
  read_lanes(run, {consumer, datacenter});
  return run;
}

}  // namespace hs
