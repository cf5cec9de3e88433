#include "app/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "app/toml_file.h"

namespace hs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnvironmentPrefix = "HETEROSERVE_";
constexpr const char* kDefaultModel = "HETEROSERVE_DEFAULT_MODEL";

const Setting* find_by_key(std::string_view key) {
  for (const Setting& setting : settings())
    if (setting.key == key) return &setting;
  return nullptr;
}

Status apply(const Setting& setting, const std::string& value, const std::string& origin,
             LoadedConfig& loaded) {
  if (const Status set = setting.set(loaded.config, value); !set)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("{} ({}): '{}' {}", setting.flag, origin, value, set.error().message));
  loaded.values[setting.key] = {value, origin};
  return {};
}

Status apply_file(const fs::path& path, LoadedConfig& loaded) {
  const auto values = read_toml_settings(path);
  if (!values) return std::unexpected(values.error());
  for (const auto& [key, value] : *values) {
    const Setting* setting = find_by_key(key);
    if (setting == nullptr) {
      std::vector<std::string> keys;
      for (const Setting& known : settings()) keys.emplace_back(known.key);
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("{}: unknown key '{}'; did you mean '{}'?", path.string(), key,
                              nearest(key, keys)));
    }
    if (const Status applied = apply(*setting, value, path.string(), loaded); !applied)
      return applied;
  }
  return {};
}

// The file and its drop-ins, in the order in which they are applied.
Result<std::vector<fs::path>> files_of(const ConfigSources& sources) {
  std::vector<fs::path> files;
  std::error_code error;
  const fs::path file = sources.file.value_or(sources.system_file);
  if (fs::exists(file, error))
    files.push_back(file);
  else if (sources.file)
    return fail(ErrorKind::kIo,
                fmt::format("cannot read {}: there is no such file", file.string()));
  std::vector<fs::path> drop_ins;
  for (const auto& entry : fs::directory_iterator(file.parent_path() / "conf.d", error))
    if (entry.path().extension() == ".toml") drop_ins.push_back(entry.path());
  std::ranges::sort(drop_ins);
  files.insert(files.end(), drop_ins.begin(), drop_ins.end());
  return files;
}

Status check_environment_names(std::span<const char* const> names) {
  // These are no settings: the file to read, the instruction set (kernels/isa.h), the model when no
  // setting names one, and the key that commands give to a running server.
  std::vector<std::string> known = {"HETEROSERVE_CONFIG", "HETEROSERVE_CPU_ISA", kDefaultModel,
                                    "HETEROSERVE_ADMIN_KEY"};
  for (const Setting& setting : settings()) known.emplace_back(setting.environment);
  for (const std::string_view entry : names) {
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.starts_with(kEnvironmentPrefix) && std::ranges::find(known, name) == known.end())
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("unknown environment variable {}; did you mean {}?", name,
                              nearest(name, known)));
  }
  return {};
}

Status check_tiers(const Config& config) {
  const auto refuse = [](std::string message) {
    return fail(ErrorKind::kInvalidArgument, std::move(message));
  };
  const bool no_consumer = config.consumer.empty();
  const bool shares_datacenter = config.tensor_parallel > 1 && no_consumer;
  if (no_consumer != config.datacenter.empty() && !shares_datacenter) {
    return refuse(fmt::format("{} is set but {} is not: name devices for both roles, or auto",
                              no_consumer ? "--datacenter" : "--consumer",
                              no_consumer ? "--consumer" : "--datacenter"));
  }
  const bool has_tiers = config.partition == Partition::kModality;
  if (config.steal == StealMode::kOn && !has_tiers)
    return refuse("--steal on goes with --partition modality: with others every device has text");
  if (config.tensor_parallel > 1 && config.partition == Partition::kColocated)
    return refuse(
        fmt::format("--tensor-parallel {} does not go with --partition colocated, where "
                    "each device serves alone",
                    config.tensor_parallel));
  if (config.tensor_parallel > 1 && config.partition == Partition::kStage)
    return refuse(
        fmt::format("--tensor-parallel {} does not go with --partition stage, which hands the KV "
                    "cache of one device to one other",
                    config.tensor_parallel));
  return {};
}

}  // namespace

double Config::hour_price(DeviceId priced) const {
  const char* kind = priced.kind == DeviceId::Kind::kCpu ? "cpu" : "cuda";
  for (const std::string& name : {to_string(priced), std::string(kind)})
    if (const auto found = price_device_hour.find(name); found != price_device_hour.end())
      return found->second;
  return 0;
}

size_t Config::pictures_body_bytes() const {
  if (images_max == 0) return 0;
  // A picture travels as base64, 4 bytes for 3.
  return static_cast<size_t>(images_max) * (image_bytes_max() / 3 * 4) + (size_t{64} << 10);
}

size_t Config::body_bytes_max() const {
  if (max_body_mib > 0) return static_cast<size_t>(max_body_mib) << 20;
  return std::max(pictures_body_bytes() + (size_t{1} << 20), size_t{64} << 20);
}

Result<LoadedConfig> load_config(const ConfigSources& sources,
                                 std::span<const char* const> environment_names) {
  LoadedConfig loaded;
  for (const Setting& setting : settings())
    loaded.values[setting.key] = {setting.default_text, "default"};
  ConfigSources with_file = sources;
  if (const char* file = sources.environment("HETEROSERVE_CONFIG");
      file != nullptr && !sources.file)
    with_file.file = file;
  const auto files = files_of(with_file);
  if (!files) return std::unexpected(files.error());
  for (const fs::path& file : *files) {
    loaded.files.push_back(file.string());
    if (const Status applied = apply_file(file, loaded); !applied)
      return std::unexpected(applied.error());
  }
  if (const Status names = check_environment_names(environment_names); !names)
    return std::unexpected(names.error());
  for (const Setting& setting : settings()) {
    const char* value = sources.environment(setting.environment);
    const auto flag = sources.flags.find(setting.flag);
    Status applied;
    if (flag != sources.flags.end())
      applied = apply(setting, flag->second, "flag", loaded);
    else if (value != nullptr)
      applied = apply(setting, value, fmt::format("environment {}", setting.environment), loaded);
    if (!applied) return std::unexpected(applied.error());
  }
  if (const char* model = sources.environment(kDefaultModel);
      loaded.config.model.empty() && model != nullptr && *model != '\0') {
    loaded.config.model = model;
    loaded.values["model.path"] = {model, fmt::format("default, environment {}", kDefaultModel)};
  }
  if (loaded.config.log_path.empty()) {
    loaded.config.log_path =
        default_state_path(sources.environment, "requests.db", sources.service_state);
    loaded.values["log.path"].value = loaded.config.log_path;
  }
  if (loaded.config.models_dir.empty()) {
    loaded.config.models_dir =
        default_state_path(sources.environment, "models", sources.service_state);
    loaded.values["model.store"].value = loaded.config.models_dir;
  }
  if (loaded.config.keys_path.empty()) {
    loaded.config.keys_path =
        default_state_path(sources.environment, "keys.db", sources.service_state);
    loaded.values["auth.keys_path"].value = loaded.config.keys_path;
  }
  if (const Status checked = check_config(loaded.config); !checked)
    return std::unexpected(checked.error());
  return loaded;
}

Status check_config(const Config& config) {
  if (Status tiers = check_tiers(config); !tiers) return tiers;
  const auto refuse = [](std::string message) {
    return fail(ErrorKind::kInvalidArgument, std::move(message));
  };
  const size_t needed = config.pictures_body_bytes();
  if (config.body_bytes_max() < needed)
    return refuse(fmt::format(
        "--max-body-mib {} is too small for {} pictures of --max-image-mib {}: a body must hold "
        "{} MiB",
        config.max_body_mib, config.images_max, config.max_image_mib, (needed >> 20) + 1));
  if (config.max_num_batched_tokens < config.max_num_seqs)
    return refuse(fmt::format(
        "--max-num-batched-tokens {} is below --max-num-seqs {}: a step could not hold one "
        "token of each sequence",
        config.max_num_batched_tokens, config.max_num_seqs));
  const int64_t slots = int64_t{config.kv_blocks} * config.block_size;
  if (config.kv_blocks > 0 && config.max_model_len > 0 && slots < config.max_model_len)
    return refuse(fmt::format(
        "--kv-blocks {} of --block-size {} hold {} tokens, fewer than --max-model-len {}",
        config.kv_blocks, config.block_size, slots, config.max_model_len));
  return {};
}

std::vector<std::string> settings_without_effect(const Config& config, const DeviceFacts& facts) {
  std::vector<std::string> out;
  if (config.cut != CutChoice::kAuto && !facts.pictures_cross)
    out.push_back(fmt::format("--cut {} has no effect: pictures stay on the device that answers",
                              config.cut == CutChoice::kPre ? "pre" : "post"));
  if (config.transfer != LinkChoice::kAuto && !facts.several_devices)
    out.push_back(fmt::format("--transfer {} has no effect: nothing is copied between devices",
                              config.transfer == LinkChoice::kPeer ? "peer" : "staged"));
  return out;
}

std::vector<std::string> config_warnings(const Config& config) {
  // Datacenter devices of one group without consumers: the first encodes for itself.
  const bool one_group = config.consumer.empty() &&
                         std::ssize(config.datacenter) == std::ptrdiff_t{config.tensor_parallel};
  const bool same_device = config.consumer.size() == 1 && config.consumer == config.datacenter &&
                           config.consumer.front() != "auto";
  const bool several = !config.is_plain() && !same_device;
  std::vector<std::string> out = settings_without_effect(
      config,
      {.several_devices = several,
       .pictures_cross = several && !one_group && config.partition != Partition::kColocated});
  if (config.max_num_batched_tokens < config.block_size)
    out.push_back(
        fmt::format("--max-num-batched-tokens {} is below --block-size {}: prompts are read in "
                    "pieces smaller than a block of the KV cache",
                    config.max_num_batched_tokens, config.block_size));
  if (config.allow_private_media && config.allowed_media_domains.empty())
    out.emplace_back("--allow-private-media has no effect: --allowed-media-domains names no host");
  if (!config.keeps_log() && (config.price_kwh > 0 || !config.price_device_hour.empty()))
    out.emplace_back("prices have no effect: --log-path none keeps no request");
  if (config.kv_blocks > 0 && config.kv_blocks < config.max_num_seqs)
    out.push_back(
        fmt::format("--kv-blocks {} are fewer than --max-num-seqs {}: a step never holds so many "
                    "sequences",
                    config.kv_blocks, config.max_num_seqs));
  return out;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    // One row of the edit-distance table (Levenshtein).
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string default_state_path(const std::function<const char*(const char*)>& environment,
                               std::string_view file, std::string_view service_state) {
  const auto variable = [&](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string state = variable("STATE_DIRECTORY"); !state.empty())
    return fmt::format("{}/{}", state.substr(0, state.find(':')), file);
  if (!service_state.empty()) return fmt::format("{}/{}", service_state, file);
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty())
    return fmt::format("{}/heteroserve/{}", state, file);
  if (const std::string home = variable("HOME"); !home.empty())
    return fmt::format("{}/.local/state/heteroserve/{}", home, file);
  return std::string(file);
}

std::string default_log_path(const std::function<const char*(const char*)>& environment) {
  return default_state_path(environment, "requests.db");
}

}  // namespace hs
