// `heteroserve bench`: a stated load on the engine in this process, without HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "api/chrome_trace.h"
#include "app/bench_load.h"
#include "app/bench_play.h"
#include "app/bench_report.h"
#include "app/commands.h"
#include "app/exit_codes.h"
#include "app/model_source.h"
#include "app/plan_inputs.h"
#include "app/served_engine.h"
#include "base/clock.h"

namespace hs {
namespace {

Result<BenchLoad> read_load(const BenchOptions& options) {
  const auto size = parse_picture_size(options.image_size, "--image-size");
  if (!size) return std::unexpected(size.error());
  constexpr int64_t kPixelsMax = ImageLimits{}.pixels_max;
  if (int64_t{size->width} * size->height > kPixelsMax)
    return fail(ErrorKind::kInvalidArgument, fmt::format("--image-size {} is more than {} pixels",
                                                         options.image_size, kPixelsMax));
  const int32_t pictures = options.picture_requests.value_or((options.requests + 1) / 2);
  if (pictures > options.requests)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--picture-requests {} are more than --requests {}", pictures,
                            options.requests));
  return BenchLoad{.seed = options.seed,
                   .requests = options.requests,
                   .picture_requests = options.images == 0 ? 0 : pictures,
                   .images = options.images,
                   .width = size->width,
                   .height = size->height,
                   .prompt_tokens = options.prompt_tokens,
                   .output_tokens = options.output_tokens,
                   .rate = options.rate};
}

Status first_failure(const Played& played) {
  for (const PlayedRequest& request : played.requests)
    if (request.error) return std::unexpected(*request.error);
  return {};
}

// One request of each kind, so that nothing is measured the first time that it runs.
Status warm_up(ServedEngine& loaded, const Clock& clock, WakeUp& wake, BenchLoad load) {
  load.seed = ~load.seed;
  load.rate = 0;
  load.picture_requests = std::min(load.picture_requests, 1);
  load.requests = load.picture_requests + 1;
  const auto traffic = make_bench_traffic(*loaded.model.prompts, load);
  if (!traffic) return std::unexpected(traffic.error());
  const auto played = play(*loaded.engine, clock, wake, traffic->requests, {});
  return played ? first_failure(*played) : std::unexpected(played.error());
}

BenchFacts facts_of(const Config& config, const BenchOptions& options, const ServedEngine& loaded) {
  const ModelSpec& spec = loaded.model.spec;
  BenchFacts facts{.model = loaded.served->names.front(),
                   .dtype = std::string(dtype_name(config.dtype)),
                   .partition = {},
                   .cut = {},
                   .tensor_parallel = config.tensor_parallel,
                   .seed = options.seed,
                   .at_once = options.rate > 0 ? 0 : static_cast<size_t>(options.concurrency),
                   .rate = options.rate};
  if (loaded.devices.size() > 1) facts.partition = to_string(config.partition);
  if (loaded.pictures_cross) facts.cut = spec.cut_before_projector ? "before" : "after";
  return facts;
}

Status bench(const Config& config, const BenchOptions& options) {
  auto load = read_load(options);
  if (!load) return std::unexpected(load.error());
  std::ofstream trace;
  if (!options.trace.empty()) {
    trace.open(options.trace, std::ios::binary);
    if (!trace) return fail(ErrorKind::kIo, fmt::format("--trace: cannot write {}", options.trace));
  }
  const SystemClock clock;
  WakeUp wake;
  auto opened = load_engine(config, clock, [&wake] { wake.notify(); });
  if (!opened) return std::unexpected(opened.error());
  ServedEngine& loaded = **opened;
  if (!loaded.model.spec.has_vision) {
    if (options.picture_requests.value_or(0) > 0)
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("--picture-requests: {} takes no pictures", loaded.model.spec.name));
    load->picture_requests = 0;
  }
  const auto traffic = make_bench_traffic(*loaded.model.prompts, *load);
  if (!traffic) return std::unexpected(traffic.error());
  fmt::print("{}", loaded.roles);
  for (const std::string& link : loaded.engine->links()) fmt::print("link {}\n", link);
  fmt::print(
      "load: {} requests, {} with {} picture(s) of {}, about {} tokens of text, {} tokens "
      "of answer, {}, seed {}\n\n",
      load->requests, load->picture_requests, load->images, options.image_size, load->prompt_tokens,
      load->output_tokens,
      load->rate > 0 ? fmt::format("{:g} a second", load->rate)
                     : fmt::format("{} at once", options.concurrency),
      load->seed);
  std::fflush(stdout);
  if (Status warm = warm_up(loaded, clock, wake, *load); !warm) return warm;

  const EngineStats before = loaded.engine->stats();
  Schedule schedule{.due_s = traffic->due_s};
  if (load->rate <= 0) schedule.at_once = static_cast<size_t>(options.concurrency);
  const auto played = play(*loaded.engine, clock, wake, traffic->requests, schedule);
  if (!played) return std::unexpected(played.error());
  if (Status failed = first_failure(*played); !failed) return failed;
  const BenchReport report(facts_of(config, options, loaded), *played, before,
                           loaded.engine->stats());
  fmt::print("{}{}\n", report.table(), report.json());
  if (!trace.is_open()) return {};
  trace << chrome_trace(loaded.engine->timeline(), clock.now_us());
  trace.close();
  if (trace) return {};
  return fail(ErrorKind::kIo, fmt::format("--trace: cannot write {}", options.trace));
}

}  // namespace

int bench_command(const Config& config, const BenchOptions& options) {
  const auto model = find_model(config, config.model);
  if (!model) {
    print_error(model.error());
    return kExitConfig;
  }
  const Config chosen = config_of(config, *model);
  if (const Status good = check_start(chosen); !good) {
    print_error(good.error());
    return kExitConfig;
  }
  const Status done = options.calibrate ? bench_calibrate(chosen, options) : bench(chosen, options);
  if (done) return kExitOk;
  print_error(done.error());
  return done.error().kind == ErrorKind::kInvalidArgument ? kExitConfig : kExitFailure;
}

}  // namespace hs
