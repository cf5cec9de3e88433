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
#include "plan/measured_times.h"
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

namespace {

Result<std::string> read_text_file(const std::string& path, std::string_view flag) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file) return text;
  return fail(ErrorKind::kNotFound, fmt::format("{}: cannot read {}", flag, path), {},
              std::string(flag));
}

}  // namespace

Result<Catalogue> load_catalogue(const PlanOptions& options) {
  if (options.cards.empty()) return read_catalogue(shipped_cards_toml(), "cards.toml");
  const auto text = read_text_file(options.cards, "--cards");
  if (!text) return std::unexpected(text.error());
  return read_catalogue(*text, options.cards);
}

Result<std::optional<Profile>> load_profile(const PlanOptions& options) {
  if (options.profile.empty()) return std::nullopt;
  const auto text = read_text_file(options.profile, "--profile");
  if (!text) return std::unexpected(text.error());
  auto profile = read_profile(*text, options.profile);
  if (!profile) return std::unexpected(profile.error());
  return *std::move(profile);
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

// The card of the same name, if there is one, says what a measured device costs.
Result<DeviceModel> measured_device(const ModelShape& shape, const ProfiledDevice& device,
                                    const Profile& profile, Pool pool, const Catalogue& catalogue) {
  if (Status same = profile.check_model(shape); !same) return std::unexpected(same.error());
  Card card;
  if (const auto known = catalogue.card(device.name)) {
    card = *known;
  } else {
    card.key = card.name = device.name;
    card.pool = pool;
  }
  return DeviceModel(shape, card, std::make_shared<MeasuredTimes>(profile, device));
}

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
                                 const Catalogue& catalogue, const Profile* profile) {
  const auto load = [&](std::string key, int32_t n_cards, Pool pool) -> Result<DeviceModel> {
    const bool consumer = pool == Pool::kConsumer;
    if (profile != nullptr) {
      if (key.empty()) key = (consumer ? profile->devices.front() : profile->devices.back()).name;
      if (const auto device = profile->device(key)) {
        return measured_device(shape, **device, *profile, pool, catalogue);
      }
    }
    if (key.empty()) key = consumer ? "rtx4090" : "a100-80";
    auto made =
        load_device(shape, key, n_cards, consumer ? "--consumer" : "--datacenter", catalogue);
    if (!made && profile != nullptr) {
      Error error = made.error();
      error.message += fmt::format("; and {}", profile->device(key).error().message);
      return std::unexpected(error);
    }
    return made;
  };
  auto consumer = load(devices.consumer, devices.consumer_tp, Pool::kConsumer);
  if (!consumer) return std::unexpected(consumer.error());
  auto datacenter = load(devices.datacenter, devices.datacenter_tp, Pool::kDatacenter);
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
  auto profile = load_profile(options);
  if (!profile) return std::unexpected(profile.error());
  const Profile* measured = *profile ? &**profile : nullptr;
  auto devices = load_devices(*shape, options.devices, *catalogue, measured);
  if (!devices) return std::unexpected(devices.error());
  return PlanInputs{*std::move(shape), *std::move(catalogue), *std::move(workload),
                    *std::move(devices), *std::move(profile)};
}

Mix mix_of(ArmKind kind, const CardsOptions& devices) {
  const int32_t n_all = devices.consumers + devices.datacenters;
  if (kind == ArmKind::kDatacenter) return {0, n_all};
  if (kind == ArmKind::kConsumer) return {n_all, 0};
  return {devices.consumers, devices.datacenters};
}

void add_profile_table(Report& report, const Profile& profile) {
  constexpr auto kMeasured = Origin::kMeasured;
  Report::Table& table = report.table("profile", "What was measured",
                                      {{"device", "device", "", {}},
                                       {"what", "work", "", {}},
                                       {"ms", "time", "ms", kMeasured},
                                       {"low_ms", "10th percentile", "ms", kMeasured},
                                       {"high_ms", "90th percentile", "ms", kMeasured}});
  const auto add = [&](const std::string& device, const std::string& what,
                       const MeasuredTime& time) {
    table.add({device, what, time.us / 1000, time.low_us / 1000, time.high_us / 1000});
  };
  for (const ProfiledDevice& device : profile.devices) {
    for (const MeasuredStep& one : device.steps) {
      add(device.name,
          fmt::format("step: {} x {} tokens behind {}{}", one.n_seqs, one.n_tokens, one.n_before,
                      one.sampled ? ", sampled" : ""),
          one.time);
    }
    for (const MeasuredEncode& one : device.encodes) {
      add(device.name, fmt::format("encode: {} x {} rows", one.n_pictures, one.n_rows), one.time);
    }
    for (const MeasuredPause& one : device.pauses) {
      add(device.name, fmt::format("between steps of {}", one.n_seqs), one.time);
    }
  }
  for (const MeasuredCopy& one : profile.embeddings) {
    add("", fmt::format("embeddings: {} rows", one.n_rows), one.time);
  }
  for (const MeasuredCopy& one : profile.keys_values) {
    add("", fmt::format("keys and values: {} tokens", one.n_rows), one.time);
  }
  table.note(fmt::format("{}: {}, {}, {}, on {}. All at once take {:.2f} x as long.", profile.file,
                         profile.date, profile.model, profile.dtype, profile.machine,
                         profile.crowding));
  report.note("Times come from measured ones, with straight lines between them.");
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
