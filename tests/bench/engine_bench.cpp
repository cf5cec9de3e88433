// Speed of a checkpoint through the engine, beside the limits of this machine measured in the same
// run.
//
//   hs_bench_engine MODEL [--dtype bfloat16|float32] [--threads N] [--repeats N] [--decode STREAMS]
//
// --decode measures that many streams and nothing else, which is what a profiler wants.
// No HTTP: prompts are token ids, so only the engine, its lanes and the kernels are measured.
// Prints a table for people and, last, one line of JSON. Every figure is the median of the repeats,
// with the smallest and largest beside it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "bench/machine_limits.h"
#include "device/cpu/cpu_device.h"
#include "engine/engine.h"
#include "kernels/isa.h"
#include "model/model.h"

namespace {

struct Options {
  std::string model;
  hs::DType dtype = hs::DType::kBF16;
  int threads = 0;
  int repeats = 5;
  int decode_streams = 0;  // nothing else is measured
};

struct Spread {
  double median = 0, low = 0, high = 0;
};

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};
}

// Resident memory of this process in bytes, from the kernel.
size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Remembers when the first and last token came.
class Recorder final : public hs::RequestSink {
 public:
  explicit Recorder(const hs::Clock& clock) : clock_(&clock) {}
  void on_text(int32_t, std::string_view, std::vector<hs::TokenLogprob>, int32_t) override {
    last_us = clock_->now_us();
    if (first_us == 0) first_us = last_us;
  }
  void on_choice_finished(int32_t, hs::FinishReason, std::string_view) override {}
  void on_done(const hs::RequestUsage& u, const hs::RequestTimings& t,
               const hs::Error* error) override {
    usage = u;
    timings = t;
    done = true;
    if (error != nullptr) failure = error->message;
  }

  int64_t first_us = 0, last_us = 0;
  hs::RequestUsage usage;
  hs::RequestTimings timings;
  bool done = false;
  std::string failure;

 private:
  const hs::Clock* clock_;
};

// An engine on one CPU device, driven by the calling thread.
class Bench {
 public:
  explicit Bench(const Options& options) : random_(1) {
    const int64_t start_us = clock_.now_us();
    device_ = must(hs::make_cpu_device({.index = 0, .threads = options.threads, .cores = {}}));
    hs::LoadOptions load;
    load.path = options.model;
    load.dtype = options.dtype;
    load.vision_devices = {device_.get()};
    load.language_devices = {device_.get()};
    model_ = must(hs::load_model(load));
    hs::EngineConfig config;
    config.kv_blocks = 1024;
    config.prefix_cache = false;
    engine_ = must(
        hs::Engine::create(model_, hs::make_topology(model_, *device_), config, clock_, [this] {
          const std::lock_guard lock(mutex_);
          woken_ = true;
          wake_.notify_one();
        }));
    load_seconds_ = static_cast<double>(clock_.now_us() - start_us) * 1e-6;
  }

  // Runs n equal requests at once to their end.
  std::vector<std::shared_ptr<Recorder>> run(int n, int prompt_tokens, int output_tokens,
                                             bool picture = false) {
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (int i = 0; i < n; ++i) {
      hs::GenerateRequest request;
      request.prompt = picture ? picture_prompt() : text_prompt(prompt_tokens);
      request.max_tokens = output_tokens;
      request.temperature = 0;
      request.ignore_eos = true;
      recorders.push_back(std::make_shared<Recorder>(clock_));
      must(engine_->submit(std::move(request), recorders.back()));
    }
    while (!engine_->idle()) {
      engine_->poll();
      if (engine_->idle()) break;
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return woken_; });
      woken_ = false;
    }
    for (const auto& recorder : recorders) {
      if (!recorder->failure.empty()) {
        fmt::print(stderr, "bench: a request failed: {}\n", recorder->failure);
        std::exit(1);
      }
    }
    return recorders;
  }

  const hs::ModelSpec& spec() const { return model_.spec; }
  bool has_vision() const { return !model_.towers.empty(); }
  double load_seconds() const { return load_seconds_; }
  int32_t kv_blocks() const { return engine_->config().kv_blocks; }

 private:
  template <typename T>
  static T must(hs::Result<T> result) {
    if (!result) {
      fmt::print(stderr, "bench: {}\n", result.error().message);
      std::exit(1);
    }
    return std::move(*result);
  }

  hs::Prompt text_prompt(int n_tokens) {
    hs::Prompt prompt;
    for (int i = 0; i < n_tokens; ++i) {
      prompt.token_ids.push_back(static_cast<int32_t>(random_() % 256) + 64);
      prompt.positions.push_back(i);
    }
    return prompt;
  }

  // A picture of noise nobody has seen before, and a question.
  hs::Prompt picture_prompt() {
    hs::Image image{336, 336, std::vector<uint8_t>(size_t{336} * 336 * 3)};
    for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random_());
    auto patches =
        std::make_shared<const hs::ImagePatches>(must(model_.prompts->preprocess(image, {})));
    hs::ChatInput input;
    input.messages.push_back({.role = "user",
                              .parts = {{hs::ChatPart::Kind::kImage, {}},
                                        {hs::ChatPart::Kind::kText, "What is in the picture?"}}});
    return must(model_.prompts->chat(input, {std::move(patches)}));
  }

  hs::SystemClock clock_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
  std::unique_ptr<hs::Device> device_;
  hs::Model model_;
  std::unique_ptr<hs::Engine> engine_;
  double load_seconds_ = 0;
};

constexpr int kDecodeTokens = 96;

// Output tokens a second of n streams, from the last stream's first token to the first stream's
// last.
double decode_rate(Bench& bench, int n) {
  const auto recorders = bench.run(n, 16, kDecodeTokens);
  int64_t begin_us = 0, end_us = INT64_MAX;
  for (const auto& r : recorders) {
    begin_us = std::max(begin_us, r->first_us);
    end_us = std::min(end_us, r->last_us);
  }
  return n * (kDecodeTokens - 1) / (static_cast<double>(end_us - begin_us) * 1e-6);
}

double prefill_rate(Bench& bench, int prompt_tokens) {
  const auto recorders = bench.run(1, prompt_tokens, 1);
  return prompt_tokens / (static_cast<double>(recorders[0]->timings.prefill_us) * 1e-6);
}

double image_rate(Bench& bench) {
  const auto recorders = bench.run(1, 0, 1, true);
  return 1e6 / static_cast<double>(recorders[0]->timings.encode_us);
}

double first_token_ms(Bench& bench, int n, bool picture) {
  std::vector<double> each;
  for (const auto& r : bench.run(n, 128, 1, picture))
    each.push_back(static_cast<double>(r->timings.first_token_us) * 1e-3);
  return spread_of(std::move(each)).median;
}

Spread repeat(int repeats, const std::function<double()>& measure) {
  measure();  // warm-up
  std::vector<double> values;
  for (int i = 0; i < repeats; ++i) values.push_back(measure());
  return spread_of(std::move(values));
}

std::string json_of(const Spread& s) {
  return fmt::format("{{\"median\": {:.3f}, \"min\": {:.3f}, \"max\": {:.3f}}}", s.median, s.low,
                     s.high);
}

struct Report {
  std::string json = "{";
  void add(std::string_view name, const Spread& s, std::string_view unit) {
    fmt::print("{:<36} {:>12.2f} {} ({:.2f} to {:.2f})\n", name, s.median, unit, s.low, s.high);
    json += fmt::format("\"{}\": {}, ", name, json_of(s));
  }
  void add(std::string_view name, double value, std::string_view unit) {
    fmt::print("{:<36} {:>12.3f} {}\n", name, value, unit);
    json += fmt::format("\"{}\": {:.4f}, ", name, value);
  }
};

int run_bench(const Options& options) {
  Bench bench(options);
  if (const int streams = options.decode_streams; streams > 0) {
    const Spread rate = repeat(options.repeats, [&] { return decode_rate(bench, streams); });
    fmt::print("{:.2f} tokens/s ({:.2f} to {:.2f}), {:.3f} ms a step\n", rate.median, rate.low,
               rate.high, 1e3 * streams / rate.median);
    return 0;
  }
  const hs::MachineLimits limits = hs::measure_machine_limits(options.threads);
  const hs::ModelSpec& spec = bench.spec();
  Report report;
  report.json += fmt::format("\"model\": \"{}\", \"dtype\": \"{}\", \"isa\": \"{}\", ", spec.name,
                             hs::dtype_name(options.dtype), hs::isa_name(hs::cpu_isa()));
  report.add("load_seconds", bench.load_seconds(), "s");
  report.add("read_bandwidth_gb_s", limits.read_gb_s, "GB/s");
  report.add("gemm_gflop_s", limits.gemm_gflop_s, "GFLOP/s");

  Spread one, sixteen;
  for (int streams : {1, 2, 4, 8, 16}) {
    const Spread rate = repeat(options.repeats, [&] { return decode_rate(bench, streams); });
    if (streams == 1) one = rate;
    if (streams == 16) sixteen = rate;
    report.add(fmt::format("decode_{}_tokens_s", streams), rate, "tokens/s");
    report.add(fmt::format("decode_{}_step_us", streams), 1e6 * streams / rate.median, "us");
  }
  const Spread prefill = repeat(options.repeats, [&] { return prefill_rate(bench, 512); });
  report.add("prefill_512_tokens_s", prefill, "tokens/s");
  report.add("ttft_1_ms", repeat(options.repeats, [&] { return first_token_ms(bench, 1, false); }),
             "ms");
  report.add("ttft_16_ms",
             repeat(options.repeats, [&] { return first_token_ms(bench, 16, false); }), "ms");
  if (bench.has_vision()) {
    report.add("images_s", repeat(options.repeats, [&] { return image_rate(bench); }), "images/s");
    report.add("ttft_picture_1_ms",
               repeat(options.repeats, [&] { return first_token_ms(bench, 1, true); }), "ms");
    report.add("ttft_picture_16_ms",
               repeat(options.repeats, [&] { return first_token_ms(bench, 16, true); }), "ms");
  }
  const auto step_bytes = static_cast<double>(spec.step_weight_bytes);
  const double weights_per_byte = 1.0 / static_cast<double>(hs::dtype_bytes(options.dtype));
  report.add("decode_1_share_of_bandwidth", one.median * step_bytes / (limits.read_gb_s * 1e9), "");
  report.add("decode_16_over_decode_1", sixteen.median / one.median, "");
  report.add("prefill_share_of_gemm",
             prefill.median * 2 * static_cast<double>(spec.prefill_weight_bytes) *
                 weights_per_byte / (limits.gemm_gflop_s * 1e9),
             "");
  const double kv_mib = static_cast<double>(spec.kv_block_bytes()) * bench.kv_blocks() / 1048576.0;
  const double weight_mib = static_cast<double>(spec.tower_bytes + spec.language_bytes) / 1048576.0;
  const double resident_mib = static_cast<double>(resident_bytes()) / 1048576.0;
  report.add("resident_mib", resident_mib, "MiB");
  report.add("kv_mib", kv_mib, "MiB");  // resident only where tokens have been
  report.add("resident_beyond_weights_mib", resident_mib - weight_mib, "MiB");
  report.json.resize(report.json.size() - 2);
  fmt::print("{}}}\n", report.json);
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
    } else if (argument == "--threads" && has_value) {
      options.threads = std::atoi(argv[++i]);
    } else if (argument == "--repeats" && has_value) {
      options.repeats = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--decode" && has_value) {
      options.decode_streams = std::max(1, std::atoi(argv[++i]));
    } else {
      options.model = argument;
    }
  }
  if (options.model.empty()) {
    fmt::print(
        stderr,
        "usage: hs_bench_engine MODEL [--dtype bfloat16|float32] [--threads N] [--repeats N] "
        "[--decode STREAMS]\n");
    return 2;
  }
  return run_bench(options);
}
