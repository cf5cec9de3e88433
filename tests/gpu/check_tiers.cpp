// Copies between devices, what stealing costs pictures, and whether a GPU answers as the CPU does.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/bench_load.h"
#include "app/bench_play.h"
#include "base/wake_up.h"
#include "device/cpu/cpu_devices.h"
#include "device/peer_link.h"
#include "engine/topology.h"
#include "gpu/check.h"
#include "gpu/op_bench.h"

namespace hs::gpu {
namespace {

// The index of the device for the other role: a second GPU, or the first one once more.
int other_index(const Bench& bench) {
  return bench.devices.size() > 1 ? bench.devices[1].id.index : bench.devices.front().id.index;
}

struct Pair {
  std::unique_ptr<Device> first;
  std::unique_ptr<Device> second;
};

Result<Pair> make_pair_of(const Bench& bench) {
  auto first = bench.make(bench.devices.front().id.index, true);
  if (!first) return std::unexpected(first.error());
  auto second = bench.make(other_index(bench), true);
  if (!second) return std::unexpected(second.error());
  return Pair{std::move(*first), std::move(*second)};
}

Result<double> link_seconds(const Bench& bench, PeerLink& link, Device& from, Device& to,
                            size_t bytes) {
  auto source = from.allocate(bytes);
  if (!source) return std::unexpected(source.error());
  auto target = to.allocate(bytes);
  if (!target) return std::unexpected(target.error());
  const CopyRun run{source->data(), target->data(), bytes};
  return seconds_of(bench.options.sizes, [&]() -> Status {
    const auto copied = link.copy(std::span(&run, 1), false);
    return copied ? Status{} : std::unexpected(copied.error());
  });
}

Status measure_link(const Bench& bench, const Pair& pair, LinkChoice choice,
                    const PeerLink::Options& options) {
  auto link = PeerLink::open(*pair.first, *pair.second, choice, options);
  if (!link) return std::unexpected(link.error());
  const std::string name = fmt::format("{} copy, {} chunks of {} KiB", to_string((*link)->path()),
                                       options.n_chunks, options.chunk_bytes >> 10);
  constexpr size_t kSmall = 4096;
  constexpr size_t kPicture = size_t{576} * 4096 * 2;
  const size_t large = bench.options.sizes.copy_bytes;
  for (const size_t bytes : {kSmall, kPicture, large}) {
    if (bytes > large) continue;  // where copies are small
    const auto seconds = link_seconds(bench, **link, *pair.first, *pair.second, bytes);
    if (!seconds) return std::unexpected(seconds.error());
    const double gbs = static_cast<double>(bytes) * 1e-9 / *seconds;
    if (bytes == kSmall)
      bench.report.add("links", name + ": 4 KiB", *seconds * 1e6, "us");
    else
      bench.report.add("links",
                       fmt::format("{}: {:.1f} MB", name, static_cast<double>(bytes) * 1e-6), gbs,
                       "GB/s");
    const bool is_default = options.chunk_bytes == PeerLink::Options{}.chunk_bytes &&
                            options.n_chunks == PeerLink::Options{}.n_chunks;
    if (bytes != large || !is_default || (*link)->path() != LinkPath::kStaged) continue;
    constexpr double kShareMin = 0.80;
    bench.report.at_least("links", "staged copy, of the slower way over PCIe",
                          gbs / std::min(bench.rates.upload_gbs, bench.rates.download_gbs),
                          kShareMin);
  }
  return {};
}

// An engine on devices, and requests played to it.
class Server {
 public:
  Status start(const std::string& path, const Placement& placement, StealMode steal,
               int32_t step_tokens) {
    auto model = load_model({.path = path,
                             .max_step_tokens = step_tokens,
                             .max_encode_images = 1,
                             .max_model_len = kContext,
                             .vision_devices = placement.tower_devices,
                             .language_devices = placement.language_devices});
    if (!model) return std::unexpected(model.error());
    model_ = std::move(*model);
    const EngineConfig config{.max_model_len = kContext,
                              .max_num_seqs = kSeqs,
                              .max_num_batched_tokens = step_tokens,
                              .kv_blocks = kSeqs * kContext / 16,
                              .max_encode_images = 1,
                              .prefix_cache = false,
                              .steal = steal};
    auto engine = Engine::create(model_, make_topology(model_, placement), config, clock_,
                                 [this] { wake_.notify(); });
    if (!engine) return std::unexpected(engine.error());
    engine_ = std::move(*engine);
    return {};
  }
  Result<Played> serve(const BenchLoad& load, size_t at_once) {
    const auto traffic = make_bench_traffic(*model_.prompts, load);
    if (!traffic) return std::unexpected(traffic.error());
    return play(*engine_, clock_, wake_, traffic->requests, {.due_s = {}, .at_once = at_once});
  }
  Engine& engine() { return *engine_; }

 private:
  static constexpr int32_t kContext = 512;
  static constexpr int32_t kSeqs = 8;
  Model model_;
  WakeUp wake_;
  SystemClock clock_;
  std::unique_ptr<Engine> engine_;
};

// Of each picture: how many stolen steps ran on its tower's device between the time when its
// request came, or when the tower had finished the picture before, and its encoding.
int32_t most_steps_before_a_picture(const LaneTimeline& lane,
                                    const std::vector<PlayedRequest>& requests) {
  int32_t most = 0;
  int64_t tower_free_us = 0;
  for (const TimelineEntry& picture : lane.entries) {
    if (picture.kind != WorkOrder::Kind::kEncode) continue;
    const auto request = std::ranges::find(requests, picture.request, &PlayedRequest::id);
    if (request == requests.end()) continue;
    const int64_t since_us = std::max(request->submitted_us, tower_free_us);
    const auto n = std::ranges::count_if(lane.entries, [&](const TimelineEntry& step) {
      return step.kind == WorkOrder::Kind::kStep && step.stolen && step.finished_us > since_us &&
             step.started_us < picture.started_us;
    });
    most = std::max(most, static_cast<int32_t>(n));
    tower_free_us = picture.finished_us;
  }
  return most;
}

size_t same_prefix(const std::string& one, const std::string& other) {
  const auto differ = std::ranges::mismatch(one, other);
  return static_cast<size_t>(differ.in1 - one.begin());
}

}  // namespace

Status check_links(const Bench& bench) {
  const auto pair = make_pair_of(bench);
  if (!pair) return std::unexpected(pair.error());
  const size_t chunk_max = std::max(bench.options.sizes.copy_bytes / 4, size_t{4096});
  for (const size_t chunk : {size_t{256} << 10, size_t{1} << 20, size_t{4} << 20}) {
    for (const int32_t n_chunks : {2, 4}) {
      const bool is_default = chunk == PeerLink::Options{}.chunk_bytes && n_chunks == 4;
      if (chunk > chunk_max && !is_default) continue;
      if (Status s = measure_link(bench, *pair, LinkChoice::kStaged,
                                  {.chunk_bytes = chunk, .n_chunks = n_chunks});
          !s) {
        return s;
      }
    }
  }
  if (bench.devices.size() < 2) {
    bench.report.add("links", "GPUs; a link between two needs two", 1, "");
    return {};
  }
  return measure_link(bench, *pair, LinkChoice::kAuto, {});
}

Status check_tiers(const Bench& bench) {
  const auto pair = make_pair_of(bench);
  if (!pair) return std::unexpected(pair.error());
  Server server;
  const Placement placement =
      place({pair->first.get()}, {pair->second.get()}, Partition::kModality, true);
  const Sizes& sizes = bench.options.sizes;
  if (Status s = server.start(bench.options.demo, placement, StealMode::kOn, 128); !s) return s;
  const int32_t n_pictures = std::max(sizes.tier_requests / 4, 1);
  const auto played = server.serve({.requests = sizes.tier_requests,
                                    .picture_requests = n_pictures,
                                    .prompt_tokens = 24,
                                    .output_tokens = 8},
                                   static_cast<size_t>(sizes.tier_requests));
  if (!played) return std::unexpected(played.error());
  for (const PlayedRequest& request : played->requests) {
    if (request.error) return std::unexpected(*request.error);
  }
  // Both lanes have the same name where one GPU has both roles: the tower's comes first.
  const auto lanes = server.engine().timeline();
  const auto tower = std::ranges::find_if(lanes, [](const LaneTimeline& lane) {
    return std::ranges::any_of(lane.entries, [](const TimelineEntry& entry) {
      return entry.kind == WorkOrder::Kind::kEncode;
    });
  });
  if (tower == lanes.end()) return fail(ErrorKind::kInternal, "no lane has encoded a picture");
  bench.report.add("tiers", "requests that were stolen",
                   static_cast<double>(server.engine().stats().steals), "");
  bench.report.at_most("tiers", "stolen steps that a picture waited for, at most",
                       most_steps_before_a_picture(*tower, played->requests), 1, "steps");
  return {};
}

Status check_answers(const Bench& bench) {
  const BenchLoad load{
      .requests = 3, .picture_requests = 1, .prompt_tokens = 16, .output_tokens = 8};
  std::vector<std::vector<std::string>> texts;
  for (const bool on_gpu : {false, true}) {
    auto device = on_gpu ? bench.make(bench.devices.front().id.index, true)
                         : make_cpu_device({.index = 0, .threads = 0, .cores = {}});
    if (!device) return std::unexpected(device.error());
    Server server;
    const Placement placement = place({}, {device->get()}, Partition::kColocated, false);
    if (Status s = server.start(bench.options.demo, placement, StealMode::kOff, 128); !s) return s;
    const auto played = server.serve(load, 1);
    if (!played) return std::unexpected(played.error());
    std::vector<std::string>& its_texts = texts.emplace_back();
    for (const PlayedRequest& request : played->requests) {
      if (request.error) return std::unexpected(*request.error);
      its_texts.push_back(request.text);
    }
  }
  size_t same = 0;
  size_t all = 0;
  for (size_t i = 0; i < texts[0].size(); ++i) {
    same += same_prefix(texts[0][i], texts[1][i]);
    all += texts[0][i].size();
  }
  // Greedy answers go apart where two tokens are level within rounding.
  constexpr double kShareMin = 0.5;
  bench.report.at_least("answers", "as the CPU's until they go apart",
                        static_cast<double>(same) / static_cast<double>(std::max<size_t>(all, 1)),
                        kShareMin);
  return {};
}

}  // namespace hs::gpu
