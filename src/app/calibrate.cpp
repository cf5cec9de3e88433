#include "app/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "app/bench_load.h"
#include "app/bench_play.h"
#include "app/calibrate_device.h"
#include "base/clock.h"
#include "device/peer_link.h"
#include "engine/topology.h"
#include "kernels/isa.h"

namespace hs {
namespace {

constexpr int kRoundsMin = 3;
constexpr int kRoundsMax = 15;

MeasuredTime summary(std::vector<double> us) {
  std::ranges::sort(us);
  const auto at = [&](double share) {
    return us[static_cast<size_t>(std::lround(share * static_cast<double>(us.size() - 1)))];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

// 1, 2, 4 ... and `most` itself.
std::vector<int32_t> doubling(int32_t first, int32_t most) {
  std::vector<int32_t> result;
  for (int64_t n = first; n < most; n *= 2) result.push_back(static_cast<int32_t>(n));
  result.push_back(most);
  return result;
}

class Calibration {
 public:
  Calibration(const std::vector<Device*>& devices, const CalibrationOptions& options)
      : devices_(devices), options_(options) {}

  Result<Profile> run() {
    if (Status loaded = load(); !loaded) return std::unexpected(loaded.error());
    describe();
    for (size_t i = 0; i < devices_.size(); ++i) {
      tell(fmt::format("measuring {}", to_string(devices_[i]->id())));
      profile_.devices.push_back({.name = to_string(devices_[i]->id()),
                                  .kv_tokens = n_blocks_ * options_.block_size,
                                  .steps = {},
                                  .encodes = {},
                                  .pauses = {}});
      if (Status done = on_thread(i, [&] { return measure_device(i); }); !done) {
        return std::unexpected(done.error());
      }
    }
    if (devices_.size() > 1) {
      tell("measuring copies, and all devices at once");
      if (Status done = measure_copies(); !done) return std::unexpected(done.error());
      if (Status done = measure_crowding(); !done) return std::unexpected(done.error());
    }
    tell("measuring the engine between steps");
    if (Status done = measure_pauses(); !done) return std::unexpected(done.error());
    return std::move(profile_);
  }

 private:
  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  Status load() {
    LoadOptions load;
    load.path = options_.model_path;
    load.dtype = options_.dtype;
    load.block_size = options_.block_size;
    load.max_step_tokens = options_.max_num_batched_tokens;
    load.max_encode_images = options_.max_encode_images;
    load.max_encode_patches = options_.max_encode_patches;
    load.vision_devices = devices_;
    load.language_devices.assign(devices_.begin(), devices_.end());
    auto model = load_model(load);
    if (!model) return std::unexpected(model.error());
    model_ = *std::move(model);
    context_max_ = std::min(model_.spec.max_model_len - 1, 2048);
    const int32_t per_seq = context_max_ / options_.block_size + 1;
    n_blocks_ = options_.kv_blocks > 0 ? options_.kv_blocks : per_seq * 8;
    for (size_t i = 0; i < devices_.size(); ++i) {
      measured_.push_back(std::make_unique<CalibrationDevice>(*devices_[i], model_, i, options_));
      if (Status ready = measured_[i]->prepare(n_blocks_); !ready) return ready;
    }
    return {};
  }

  void describe() {
    const ModelSpec& spec = model_.spec;
    profile_.model = spec.name;
    profile_.dtype = dtype_name(options_.dtype);
    profile_.n_layers = spec.n_layers;
    profile_.dim = spec.dim;
    profile_.kv_width = spec.kv_layout.n_kv_heads * spec.kv_layout.d_head;
  }

  // A point is measured until its share of the time is over.
  Result<MeasuredTime> measure(const std::function<Status()>& work) const {
    std::vector<double> us;
    if (Status first = work(); !first) return std::unexpected(first.error());
    const int64_t begin_us = clock_.now_us();
    for (int round = 0; round < kRoundsMax; ++round) {
      const int64_t before_us = clock_.now_us();
      if (Status done = work(); !done) return std::unexpected(done.error());
      const int64_t after_us = clock_.now_us();
      us.push_back(static_cast<double>(after_us - before_us));
      if (round + 1 >= kRoundsMin && static_cast<double>(after_us - begin_us) > point_us()) break;
    }
    return summary(std::move(us));
  }
  // About 35 points on a device.
  double point_us() const {
    return options_.seconds * 1e6 / 40 / (static_cast<double>(devices_.size()) + 1);
  }

  // Devices want a thread of their own, as lanes are.
  Status on_thread(size_t index, const std::function<Status()>& work) const {
    Status result;
    std::thread([&] {
      devices_[index]->attach_thread();
      result = work();
    }).join();
    return result;
  }

  std::vector<MeasuredStep> wanted_steps() const {
    std::vector<MeasuredStep> steps;
    const int32_t budget = options_.max_num_batched_tokens;
    for (const int32_t n : doubling(1, std::min(budget, context_max_))) {
      steps.push_back({.n_seqs = 1, .n_tokens = n});
    }
    for (const int32_t n : {budget / 4, budget / 2}) {
      for (const int32_t before : {256, context_max_ - n}) {
        if (n > 0 && before > 0 && before + n <= context_max_) {
          steps.push_back({.n_seqs = 1, .n_tokens = n, .n_before = before});
        }
      }
    }
    constexpr int32_t kShort = 16;
    const int32_t most = std::min(options_.max_num_seqs, budget);
    for (const int32_t n : doubling(1, most)) {
      steps.push_back(
          {.n_seqs = n, .n_before = std::min(kShort, context_max_ - 1), .sampled = true});
    }
    for (const int32_t before : {256, 1024, context_max_ - 1}) {
      if (before > kShort && before < context_max_) {
        steps.push_back({.n_seqs = most, .n_before = before, .sampled = true});
      }
    }
    return steps;
  }

  Status measure_device(size_t index) {
    CalibrationDevice& device = *measured_[index];
    ProfiledDevice& result = profile_.devices[index];
    for (MeasuredStep step : wanted_steps()) {
      auto time = measure([&] { return device.step(step); });
      if (!time) return std::unexpected(time.error());
      step.time = *time;
      result.steps.push_back(step);
    }
    return model_.spec.has_vision ? measure_encodes(device, result) : Status{};
  }

  Result<std::shared_ptr<const ImagePatches>> picture(int32_t side) const {
    Image image{side, side, std::vector<uint8_t>(size_t{3} * static_cast<size_t>(side * side))};
    BenchRandom random(1);
    for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random());
    auto patches = model_.prompts->preprocess(image, {});
    if (!patches) return std::unexpected(patches.error());
    return std::make_shared<const ImagePatches>(std::move(*patches));
  }

  // One picture of each number of rows that sizes give; several of the smallest.
  Status measure_encodes(CalibrationDevice& device, ProfiledDevice& result) {
    std::shared_ptr<const ImagePatches> first;
    int32_t last_rows = 0;
    constexpr int32_t kSides[] = {112, 224, 448, 672, 896, 1344};
    for (const int32_t side : kSides) {
      const auto made = picture(side);
      if (!made) continue;  // a size that this family does not take
      const int32_t n_rows = model_.towers.front()->tokens_of(**made);
      const bool too_large =
          model_.spec.max_encode_rows > 0 && n_rows > model_.spec.max_encode_rows;
      if (n_rows == last_rows || too_large || n_rows > context_max_) continue;
      last_rows = n_rows;
      if (first == nullptr) first = *made;
      if (Status done = measure_encode(device, 1, *made, result); !done) return done;
    }
    if (first == nullptr) return {};
    for (const int32_t n : doubling(1, options_.max_encode_images)) {
      if (n == 1) continue;
      if (Status done = measure_encode(device, n, first, result); !done) return done;
    }
    return {};
  }

  Status measure_encode(CalibrationDevice& device, int32_t n_pictures,
                        const std::shared_ptr<const ImagePatches>& picture,
                        ProfiledDevice& result) {
    auto time = measure([&] { return device.encode(n_pictures, picture); });
    if (!time) return std::unexpected(time.error());
    result.encodes.push_back({.n_pictures = n_pictures,
                              .n_rows = model_.towers.front()->tokens_of(*picture),
                              .n_patches = picture->grid_height * picture->grid_width,
                              .time = *time});
    return {};
  }

  // From the first device to the second, as a unit on the second fetches.
  Status measure_copies() {
    auto link = PeerLink::open(*devices_[0], *devices_[1], LinkChoice::kAuto, {});
    if (!link) return std::unexpected(link.error());
    const auto row_bytes =
        static_cast<size_t>(model_.spec.tower_dim()) * dtype_bytes(devices_[0]->activation_dtype());
    constexpr int32_t kRowsMax = 1024;
    auto from = devices_[0]->allocate(row_bytes * kRowsMax);
    auto to = devices_[1]->allocate(row_bytes * kRowsMax);
    if (!from) return std::unexpected(from.error());
    if (!to) return std::unexpected(to.error());
    return on_thread(1, [&]() -> Status {
      if (model_.spec.has_vision) {
        for (const int32_t n : doubling(64, kRowsMax)) {
          const CopyRun run{from->data(), to->data(), row_bytes * static_cast<size_t>(n)};
          if (Status done = measure_copy(**link, {&run, 1}, n, profile_.embeddings); !done) {
            return done;
          }
        }
      }
      const KvView source = measured_[0]->language().kv();
      const KvView target = measured_[1]->language().kv();
      for (const int32_t n : doubling(16, std::min(1024, context_max_))) {
        std::vector<CopyRun> runs;
        const int32_t size = options_.block_size;
        for (int32_t first = 0; first < n; first += size) {
          source.append_runs(target, first / size, first / size, std::min(size, n - first), runs);
        }
        if (Status done = measure_copy(**link, runs, n, profile_.keys_values); !done) return done;
      }
      return {};
    });
  }

  Status measure_copy(PeerLink& link, std::span<const CopyRun> runs, int64_t n_rows,
                      std::vector<MeasuredCopy>& copies) const {
    auto time = measure([&]() -> Status {
      const auto copied = link.copy(runs, options_.verify_transfers);
      return copied ? Status{} : std::unexpected(copied.error());
    });
    if (!time) return std::unexpected(time.error());
    int64_t bytes = 0;
    for (const CopyRun& run : runs) bytes += static_cast<int64_t>(run.bytes);
    copies.push_back({.n_rows = n_rows, .bytes = bytes, .time = *time});
    return {};
  }

  // The same steps on all devices at the same time, against what each took alone.
  Status measure_crowding() {
    std::vector<MeasuredStep> steps;
    for (const MeasuredStep& step : profile_.devices.front().steps) {
      if (step.n_seqs * step.n_tokens >= 8) steps.push_back(step);
    }
    std::vector<std::vector<double>> ratios(devices_.size());
    std::vector<Status> ends(devices_.size());
    std::barrier together(std::ssize(devices_));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < devices_.size(); ++i) {
      threads.emplace_back([&, i] {
        devices_[i]->attach_thread();
        for (size_t k = 0; k < steps.size(); ++k) {
          together.arrive_and_wait();
          auto time = measure([&] { return measured_[i]->step(steps[k]); });
          if (!time) {
            ends[i] = std::unexpected(time.error());
            together.arrive_and_drop();
            return;
          }
          for (const MeasuredStep& alone : profile_.devices[i].steps) {
            if (alone.n_seqs == steps[k].n_seqs && alone.n_tokens == steps[k].n_tokens &&
                alone.n_before == steps[k].n_before && alone.sampled == steps[k].sampled) {
              ratios[i].push_back(time->us / alone.time.us);
            }
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<double> all;
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (!ends[i]) return ends[i];
      all.insert(all.end(), ratios[i].begin(), ratios[i].end());
    }
    if (!all.empty()) profile_.crowding = summary(std::move(all)).us;
    return {};
  }

  // Decode steps of an engine on the first device, by its own timeline.
  Status measure_pauses() {
    measured_.clear();
    const Placement placement = place({}, {devices_[0]}, Partition::kColocated, false);
    Model one;
    one.spec = model_.spec;
    one.prompts = std::move(model_.prompts);
    one.languages.push_back(std::move(model_.languages.front()));
    WakeUp wake;
    EngineConfig config;
    config.max_num_seqs = options_.max_num_seqs;
    config.max_num_batched_tokens = options_.max_num_batched_tokens;
    config.kv_blocks = static_cast<int32_t>(n_blocks_);
    config.prefix_cache = false;
    auto engine = Engine::create(one, make_topology(one, placement), config, clock_,
                                 [&wake] { wake.notify(); });
    if (!engine) return std::unexpected(engine.error());
    for (const int32_t n : doubling(1, options_.max_num_seqs)) {
      BenchLoad load{
          .requests = n, .picture_requests = 0, .prompt_tokens = 16, .output_tokens = 24};
      const auto traffic = make_bench_traffic(*one.prompts, load);
      if (!traffic) return std::unexpected(traffic.error());
      const int64_t begin_us = clock_.now_us();
      const auto played = play(**engine, clock_, wake, traffic->requests, {});
      if (!played) return std::unexpected(played.error());
      add_pauses((*engine)->timeline().front(), begin_us, n);
    }
    return {};
  }

  void add_pauses(const LaneTimeline& lane, int64_t begin_us, int32_t n_seqs) {
    std::vector<double> us;
    for (size_t i = 1; i < lane.entries.size(); ++i) {
      const TimelineEntry& before = lane.entries[i - 1];
      const TimelineEntry& entry = lane.entries[i];
      if (before.started_us < begin_us || before.n_sampled != n_seqs) continue;
      if (entry.n_sampled != n_seqs) continue;
      us.push_back(static_cast<double>(entry.started_us - before.finished_us));
    }
    if (us.empty()) return;
    const MeasuredTime time = summary(std::move(us));
    for (ProfiledDevice& device : profile_.devices) device.pauses.push_back({n_seqs, time});
  }

  const std::vector<Device*>& devices_;
  const CalibrationOptions& options_;
  SystemClock clock_;
  Model model_;
  int32_t context_max_ = 0;  // tokens of the longest sequence
  int64_t n_blocks_ = 0;
  std::vector<std::unique_ptr<CalibrationDevice>> measured_;
  Profile profile_;
};

std::string utc_now() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

// "AMD EPYC, avx2, 2 device(s)"
std::string machine(const std::vector<Device*>& devices) {
  std::string name = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  std::string told = fmt::format("{}, {}", name, isa_name(cpu_isa()));
  for (const Device* device : devices) told += fmt::format("; {}", device->description());
  return told;
}

}  // namespace

Result<Profile> calibrate(const std::vector<Device*>& devices, const CalibrationOptions& options) {
  Result<Profile> profile = Calibration(devices, options).run();
  if (!profile) return profile;
  profile->date = utc_now();
  profile->machine = machine(devices);
  return profile;
}

}  // namespace hs
