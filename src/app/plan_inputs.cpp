#include "app/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/commands.h"
#include "app/exit_codes.h"
#include "plan/log_workload.h"
#include "plan/shipped_data.h"

namespace hs {

Result<std::vector<ModelShape>> shipped_shapes() {
  return read_model_shapes(shipped_models_toml(), "models.toml");
}

Result<ModelShape> load_shape(const std::string& name) {
  const auto shapes = shipped_shapes();
  if (!shapes) return std::unexpected(shapes.error());
  std::string known;
  for (const ModelShape& shape : *shapes) {
    if (shape.name == name) return shape;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", shape.name);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--model: \"{}\" is neither a file nor one of {}", name, known), {},
                "--model");
  }
  return read_model_config(std::filesystem::path(name));
}

Result<Catalogue> load_catalogue(const PlanOptions& options) {
  if (options.cards.empty()) return read_catalogue(shipped_cards_toml(), "cards.toml");
  std::ifstream file(options.cards, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    return fail(ErrorKind::kNotFound, fmt::format("--cards: cannot read {}", options.cards), {},
                "--cards");
  }
  return read_catalogue(text, options.cards);
}

Result<PictureSize> parse_picture_size(const std::string& text, std::string_view field) {
  PictureSize size;
  const char* end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, size.width);
  if (width.ec == std::errc() && width.ptr != end && *width.ptr == 'x') {
    const auto height = std::from_chars(width.ptr + 1, end, size.height);
    if (height.ec == std::errc() && height.ptr == end && size.width > 0 && size.height > 0) {
      return size;
    }
  }
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("{}: \"{}\" is not WIDTHxHEIGHT, for example 896x896", field, text), {},
              std::string(field));
}

Result<int32_t> picture_rows(const ModelShape& shape, const WorkloadOptions& workload) {
  if (workload.image_tokens > 0) return workload.image_tokens;
  const auto size = parse_picture_size(workload.image_size, "--image-size");
  if (!size) return std::unexpected(size.error());
  auto rows = shape.image_rows(*size);
  if (!rows) {
    return fail(rows.error().kind, fmt::format("--image-size: {}", rows.error().message), {},
                "--image-size");
  }
  return rows;
}

Result<PlanWorkload> load_workload(const ModelShape& shape, const WorkloadOptions& options) {
  PlanWorkload result;
  if (!options.from_log.empty()) {
    auto logged = read_log_workload(options.from_log);
    if (!logged) {
      return fail(logged.error().kind, fmt::format("--from-log: {}", logged.error().message), {},
                  "--from-log");
    }
    const WorkloadMeans mean = means(logged->workload);
    result.told = fmt::format(
        "{} answered requests of {} ({} others left out) over {:.0f} s: on average {:.0f} prompt "
        "tokens, {:.0f} of them of pictures, and {:.0f} output tokens.",
        logged->workload.requests.size(), options.from_log, logged->n_skipped, logged->duration_s,
        mean.prompt_tokens, mean.image_rows, mean.output_tokens);
    result.workload = std::move(logged->workload);
    return result;
  }
  RequestShape request{.image_rows = {},
                       .text_tokens = options.prompt_tokens,
                       .output_tokens = options.output_tokens};
  if (options.images > 0) {
    const auto rows = picture_rows(shape, options);
    if (!rows) return std::unexpected(rows.error());
    request.image_rows.assign(static_cast<size_t>(options.images), *rows);
    result.told = fmt::format("{} picture{} of {} tokens, ", options.images,
                              options.images == 1 ? "" : "s", *rows);
  }
  result.told +=
      fmt::format("{} tokens of text, {} of output", options.prompt_tokens, options.output_tokens);
  if (options.output_spread > 0) {
    result.told += fmt::format(", give or take {:.0f} %", 100 * options.output_spread);
  }
  result.told += ".";
  result.workload = uniform_workload(request, options.output_spread);
  return result;
}

// The receive slots are those of a server, or more where one picture needs it.
ServingLimits serving_limits(const CardsOptions& devices, const Workload& workload) {
  ServingLimits limits;
  limits.max_num_seqs = devices.max_num_seqs;
  limits.max_num_batched_tokens = devices.max_num_batched_tokens;
  for (const RequestShape& request : workload.requests) {
    for (const int32_t rows : request.image_rows) {
      limits.embedding_rows = std::max(limits.embedding_rows, rows);
    }
  }
  return limits;
}

namespace {

Result<DeviceModel> load_device(const ModelShape& shape, const std::string& key, int32_t n_cards,
                                std::string_view flag, const Catalogue& catalogue) {
  const auto card = catalogue.card(key);
  if (!card) {
    return fail(ErrorKind::kInvalidArgument, fmt::format("{}: {}", flag, card.error().message), {},
                std::string(flag));
  }
  const auto make = [&](int32_t n) {
    return DeviceModel(shape, *card, n, catalogue.efficiency, catalogue.link);
  };
  if (n_cards > 0) return make(n_cards);
  // Weights and some room: 1,000 tokens are no service, but tell a fit from none.
  constexpr int32_t kMost = 8;
  constexpr int64_t kSomeTokens = 1000;
  int32_t n = 1;
  while (n < kMost && make(n).kv_tokens(true) < kSomeTokens) n *= 2;
  return make(n);
}

}  // namespace

Result<PlanDevices> load_devices(const ModelShape& shape, const CardsOptions& devices,
                                 const Catalogue& catalogue) {
  auto consumer =
      load_device(shape, devices.consumer, devices.consumer_tp, "--consumer", catalogue);
  if (!consumer) return std::unexpected(consumer.error());
  auto datacenter =
      load_device(shape, devices.datacenter, devices.datacenter_tp, "--datacenter", catalogue);
  if (!datacenter) return std::unexpected(datacenter.error());
  return PlanDevices{*std::move(consumer), *std::move(datacenter)};
}

Result<PlanInputs> load_plan_inputs(const PlanOptions& options) {
  if (options.model.empty()) {
    return fail(ErrorKind::kInvalidArgument, "--model: name a shipped shape or a config.json", {},
                "--model");
  }
  auto shape = load_shape(options.model);
  if (!shape) return std::unexpected(shape.error());
  auto catalogue = load_catalogue(options);
  if (!catalogue) return std::unexpected(catalogue.error());
  auto workload = load_workload(*shape, options.workload);
  if (!workload) return std::unexpected(workload.error());
  auto devices = load_devices(*shape, options.devices, *catalogue);
  if (!devices) return std::unexpected(devices.error());
  return PlanInputs{*std::move(shape), *std::move(catalogue), *std::move(workload),
                    *std::move(devices)};
}

Mix mix_of(ArmKind kind, const CardsOptions& devices) {
  const int32_t n_all = devices.consumers + devices.datacenters;
  if (kind == ArmKind::kDatacenter) return {0, n_all};
  if (kind == ArmKind::kConsumer) return {n_all, 0};
  return {devices.consumers, devices.datacenters};
}

Status write_text_file(const std::string& path, std::string_view text, std::string_view flag) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file) return {};
  return fail(ErrorKind::kIo, fmt::format("{}: cannot write {}", flag, path), {},
              std::string(flag));
}

int plan_failure(const Error& error) {
  print_error(error);
  return error.kind == ErrorKind::kNotFound ? kExitUnavailable : kExitConfig;
}

int print_report(const Report& report, bool json) {
  const std::string text = json ? report.json() : report.text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace hs
