// `heteroserve run`: one question, answered once, without a server.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "app/commands.h"
#include "app/exit_codes.h"
#include "app/gpus.h"
#include "app/model_source.h"
#include "app/served_engine.h"
#include "base/clock.h"
#include "base/wake_up.h"
#include "media/image.h"

namespace hs {
namespace {

class PrintSink final : public RequestSink {
 public:
  void on_text(int32_t, std::string_view text, std::vector<TokenLogprob>, int32_t) override {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  void on_choice_finished(int32_t, FinishReason, std::string_view) override {}
  void on_done(const RequestUsage& usage, const RequestTimings& timings,
               const Error* error) override {
    usage_ = usage;
    timings_ = timings;
    if (error != nullptr) error_ = *error;
    done_ = true;
  }

  bool done() const { return done_; }
  const std::optional<Error>& error() const { return error_; }
  const RequestUsage& usage() const { return usage_; }
  const RequestTimings& timings() const { return timings_; }

 private:
  bool done_ = false;
  std::optional<Error> error_;
  RequestUsage usage_;
  RequestTimings timings_;
};

Result<std::shared_ptr<const ImagePatches>> read_image(const std::string& path,
                                                       const Config& config,
                                                       const PromptBuilder& prompts) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::kIo, fmt::format("cannot read {}", path));
  std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.size() > config.image_bytes_max())
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} is larger than --max-image-mib {}", path, config.max_image_mib));
  const auto image = decode_image(std::as_bytes(std::span(bytes)), {});
  if (!image) return fail(image.error().kind, fmt::format("{}: {}", path, image.error().message));
  auto patches = prompts.preprocess(*image, {});
  if (!patches)
    return fail(patches.error().kind, fmt::format("{}: {}", path, patches.error().message));
  return std::make_shared<const ImagePatches>(*std::move(patches));
}

Result<GenerateRequest> make_request(const Config& config, const RunOptions& options,
                                     const PromptBuilder& prompts) {
  ChatMessage message;
  message.role = "user";
  std::vector<std::shared_ptr<const ImagePatches>> images;
  for (const std::string& path : options.images) {
    auto image = read_image(path, config, prompts);
    if (!image) return std::unexpected(image.error());
    images.push_back(*std::move(image));
    message.parts.push_back({ChatPart::Kind::kImage, ""});
  }
  message.parts.push_back({ChatPart::Kind::kText, options.question});
  ChatInput input;
  input.messages.push_back(std::move(message));
  auto prompt = prompts.chat(input, std::move(images));
  if (!prompt) return std::unexpected(prompt.error());
  GenerateRequest request;
  request.prompt = *std::move(prompt);
  request.max_tokens = options.max_tokens;
  request.temperature = options.temperature;
  request.seed = options.seed;
  return request;
}

void print_stats(const ServedEngine& loaded, const PrintSink& sink) {
  const RequestUsage& usage = sink.usage();
  const RequestTimings& timings = sink.timings();
  fmt::print(stderr,
             "loaded in {:.2f} s; prompt {} tokens ({} of pictures), first token after {:.1f} ms",
             loaded.load_s, usage.prompt_tokens, usage.image_tokens,
             static_cast<double>(timings.first_token_us) / 1000);
  if (timings.decode_us > 0 && usage.completion_tokens > 1)
    fmt::print(stderr, ", then {:.1f} tokens/s",
               (usage.completion_tokens - 1) * 1e6 / static_cast<double>(timings.decode_us));
  fmt::print(stderr, "; {} tokens\n", usage.completion_tokens);
}

Status answer(const Config& config, const RunOptions& options, ServedEngine& engine,
              WakeUp& wake_up) {
  auto request = make_request(config, options, *engine.model.prompts);
  if (!request) return std::unexpected(request.error());
  request->repetition_penalty = engine.model.spec.default_repetition_penalty.value_or(1.0F);
  const auto sink = std::make_shared<PrintSink>();
  if (const auto id = engine.engine->submit(*std::move(request), sink); !id)
    return std::unexpected(id.error());
  while (true) {
    engine.engine->poll();
    if (sink->done()) break;
    wake_up.wait();
  }
  fmt::print("\n");
  if (sink->error()) return std::unexpected(*sink->error());
  print_stats(engine, *sink);
  return {};
}

}  // namespace

int run_command(const Config& given, const RunOptions& options) {
  const auto model = find_model(given, given.model);
  if (!model) {
    print_error(model.error());
    return kExitConfig;
  }
  const Config config = config_of(given, *model);
  const SystemClock clock;
  WakeUp wake_up;
  const Status good = check_start(config);
  const auto loaded = good ? load_engine(config, clock, [&wake_up] { wake_up.notify(); })
                           : std::unexpected(good.error());
  if (!loaded) {
    print_error(loaded.error());
    return kExitConfig;  // as `serve`
  }
  const Status answered = answer(config, options, **loaded, wake_up);
  if (!answered) print_error(answered.error());
  return answered ? kExitOk : kExitFailure;
}

}  // namespace hs
