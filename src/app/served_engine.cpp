#include "app/served_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "api/version.h"
#include "device/cpu/cpu_device.h"

namespace hs {
namespace {

// Memory that programs may still take, from /proc/meminfo.
size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  size_t kib = 0;
  while (file >> name >> kib && std::getline(file, unit))
    if (name == "MemAvailable:") return kib * 1024;
  return size_t{4} << 30;
}

std::shared_ptr<const ServedModel> describe(const Config& config, const ServedEngine& loaded,
                                            const Clock& clock, int32_t max_model_len) {
  auto served = std::make_shared<ServedModel>();
  served->names = served_names(config);
  served->spec = &loaded.model.spec;
  served->prompts = loaded.model.prompts.get();
  served->max_model_len = max_model_len;
  served->created_s = clock.unix_ms() / 1000;
  served->fingerprint =
      fmt::format("fp_{}_{}", version(), loaded.model.spec.revision.substr(0, 12));
  return served;
}

Result<int32_t> resolve_max_model_len(const Config& config, const ModelSpec& spec) {
  if (config.max_model_len > spec.max_model_len)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--max-model-len {} is more than the {} positions of {}",
                            config.max_model_len, spec.max_model_len, spec.name));
  return config.max_model_len == 0 ? spec.max_model_len : config.max_model_len;
}

Result<int32_t> resolve_kv_blocks(const Config& config, int32_t max_model_len,
                                  const ModelSpec& spec) {
  if (config.kv_blocks == 0)
    return default_kv_blocks(config, max_model_len, spec.kv_block_bytes(), available_bytes());
  const int64_t slots = int64_t{config.kv_blocks} * config.block_size;
  if (slots < max_model_len)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--kv-blocks {} of --block-size {} hold {} tokens, fewer than one "
                            "sequence of {}; lower "
                            "--max-model-len or raise --kv-blocks",
                            config.kv_blocks, config.block_size, slots, max_model_len));
  return config.kv_blocks;
}

}  // namespace

Result<int32_t> default_kv_blocks(const Config& config, int32_t max_model_len, size_t block_bytes,
                                  size_t free_bytes) {
  const int64_t per_sequence = (max_model_len + config.block_size - 1) / config.block_size;
  const int64_t wanted = per_sequence * config.max_num_seqs;
  const int64_t room = static_cast<int64_t>(free_bytes / 4 / std::max<size_t>(block_bytes, 1));
  if (room < per_sequence)
    return fail(ErrorKind::kResourceExhausted,
                fmt::format("the KV cache of one sequence of {} tokens takes {} MiB and a quarter "
                            "of the free memory is "
                            "{} MiB; lower --max-model-len or set --kv-blocks",
                            max_model_len, static_cast<size_t>(per_sequence) * block_bytes >> 20,
                            free_bytes >> 22));
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, room), 1, INT32_MAX));
}

std::vector<std::string> served_names(const Config& config) {
  if (!config.served_model_names.empty()) return config.served_model_names;
  return {checkpoint_name(config.model)};
}

Status check_model_path(const Config& config) {
  if (config.model.empty())
    return fail(ErrorKind::kInvalidArgument, "no model: name a directory in Hugging Face layout");
  std::error_code error;
  const std::filesystem::path path = config.model;
  if (!std::filesystem::is_directory(path, error))
    return fail(ErrorKind::kNotFound, fmt::format("{} is not a directory", config.model));
  if (!std::filesystem::exists(path / "config.json", error))
    return fail(ErrorKind::kNotFound,
                fmt::format("{} has no config.json: it is not a checkpoint in Hugging Face layout",
                            config.model));
  return {};
}

Result<std::unique_ptr<ServedEngine>> load_engine(const Config& config, const Clock& clock,
                                                  std::function<void()> wake,
                                                  LoadProgress progress) {
  const int64_t begin_us = clock.now_us();
  auto loaded = std::make_unique<ServedEngine>();
  auto device = make_cpu_device({.index = 0, .threads = config.threads, .cores = {}});
  if (!device) return std::unexpected(device.error());
  loaded->device = *std::move(device);

  LoadOptions load;
  load.path = config.model;
  load.dtype = config.dtype;
  load.block_size = config.block_size;
  load.max_step_tokens = config.max_num_batched_tokens;
  load.max_model_len = config.max_model_len;
  load.vision_devices = {loaded->device.get()};
  load.language_devices = {loaded->device.get()};
  load.progress = std::move(progress);
  auto model = load_model(load);
  if (!model) return std::unexpected(model.error());
  loaded->model = *std::move(model);

  const auto max_model_len = resolve_max_model_len(config, loaded->model.spec);
  if (!max_model_len) return std::unexpected(max_model_len.error());
  const auto kv_blocks = resolve_kv_blocks(config, *max_model_len, loaded->model.spec);
  if (!kv_blocks) return std::unexpected(kv_blocks.error());

  EngineConfig engine_config;
  engine_config.max_model_len = *max_model_len;
  engine_config.max_num_seqs = config.max_num_seqs;
  engine_config.max_num_batched_tokens = config.max_num_batched_tokens;
  engine_config.kv_blocks = *kv_blocks;
  engine_config.max_queue = config.max_queue;
  engine_config.max_encode_images = load.max_encode_images;
  auto engine = Engine::create(loaded->model, make_topology(loaded->model, *loaded->device), engine_config,
                               clock, std::move(wake));
  if (!engine) return std::unexpected(engine.error());
  loaded->engine = *std::move(engine);
  loaded->served = describe(config, *loaded, clock, *max_model_len);
  loaded->load_s = static_cast<double>(clock.now_us() - begin_us) * 1e-6;
  return loaded;
}

}  // namespace hs
