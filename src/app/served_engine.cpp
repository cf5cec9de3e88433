#include "app/served_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "api/version.h"
#include "app/device_roles.h"
#include "app/gpus.h"
#include "base/log.h"
#include "device/cpu/cpu_devices.h"

namespace hs {
namespace {

std::vector<ServedDevice> devices_told(const ServedEngine& loaded) {
  std::vector<ServedDevice> told;
  for (const DeviceRoles::Row& row : loaded.rows) {
    std::string what;
    if (!loaded.roles.empty())  // what one device alone is, the device itself says
      what = fmt::format("{}, {:.0f} GiB", row.device.name,
                         static_cast<double>(row.device.memory_bytes) / (1 << 30));
    told.push_back(
        {to_string(row.device.id), std::move(what), row.is_consumer, row.is_datacenter, row.why});
  }
  return told;
}

std::shared_ptr<const ServedModel> describe(const Config& config, const ServedEngine& loaded,
                                            const Clock& clock, int32_t max_model_len) {
  auto served = std::make_shared<ServedModel>();
  served->names = served_names(config);
  served->spec = &loaded.model.spec;
  served->prompts = loaded.model.prompts.get();
  served->grammars = make_grammars(loaded.model.spec, served->prompts->tokenizer());
  served->max_model_len = max_model_len;
  served->devices = devices_told(loaded);
  served->partition = to_string(config.partition);
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

// The least that any device of a language model has left of a memory of its own; 0: some have none.
size_t free_on_gpus(const Placement& placement) {
  size_t least = SIZE_MAX;
  for (const DeviceGroup& group : placement.language_devices)
    for (Device* device : group.ranks) least = std::min(least, device->free_bytes());
  return least;
}

// Room for KV caches.
struct KvMemory {
  size_t n_units = 1;     // language models with a cache each
  size_t free_bytes = 0;  // of the machine, for all caches
  size_t gpu_bytes = 0;   // of the device that has the least; 0: the caches are the machine's
};

// Of each cache; those that several devices share hold their blocks in parts.
Result<int32_t> resolve_kv_blocks(const Config& config, int32_t max_model_len,
                                  const ModelSpec& spec, const KvMemory& memory) {
  const size_t block_bytes = spec.kv_block_bytes(config.tensor_parallel);
  const size_t gpu_block_bytes = block_bytes / static_cast<size_t>(config.tensor_parallel);
  const bool on_gpus = memory.gpu_bytes > 0;
  if (config.kv_blocks == 0)
    return on_gpus ? gpu_kv_blocks(config, max_model_len, gpu_block_bytes, memory.gpu_bytes)
                   : default_kv_blocks(config, max_model_len, block_bytes,
                                       memory.free_bytes / memory.n_units);
  const int64_t slots = int64_t{config.kv_blocks} * config.block_size;
  if (slots < max_model_len)
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("--kv-blocks {} of --block-size {} hold {} tokens, fewer than one "
                            "sequence of {}; lower "
                            "--max-model-len or raise --kv-blocks",
                            config.kv_blocks, config.block_size, slots, max_model_len));
  const Status room = on_gpus
                          ? check_kv_room(config, gpu_block_bytes, 1, memory.gpu_bytes)
                          : check_kv_room(config, block_bytes, memory.n_units, memory.free_bytes);
  if (!room) return std::unexpected(room.error());
  return config.kv_blocks;
}

Status check_cut(const Config& config, const ModelSpec& spec) {
  if (config.cut != CutChoice::kPre || spec.has_vision) return {};
  return fail(ErrorKind::kInvalidArgument,
              fmt::format("--cut pre: {} takes no pictures", spec.name));
}

// Weights of one model as they will stand in memory, the tower's included.
size_t weight_bytes(const Config& config) {
  size_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(config.model, error))
    if (entry.path().extension() == ".safetensors") bytes += entry.file_size(error);
  return config.dtype == DType::kF32 ? 2 * bytes : bytes;  // files mostly hold 16 bits a weight
}

// Stealing needs the language weights a second time, beside the tower.
Result<bool> thieves_fit(const Config& config, const DeviceRoles& roles) {
  if (config.steal == StealMode::kOff || config.partition != Partition::kModality) return false;
  const auto is_thief = [](const DeviceRoles::Row& row) {
    return row.is_consumer && !row.is_datacenter;
  };
  const auto n_thieves = static_cast<size_t>(std::ranges::count_if(roles.rows, is_thief));
  if (n_thieves == 0) return false;
  const size_t n_homes = roles.datacenter.size() / static_cast<size_t>(config.tensor_parallel);
  // A GPU holds its own; CPU devices share the host's memory.
  const bool own = std::ranges::any_of(roles.rows, [&](const auto& row) {
    return is_thief(row) && row.device.id.kind == DeviceId::Kind::kCuda;
  });
  size_t free = available_memory_bytes();
  if (own) {
    free = SIZE_MAX;
    for (const DeviceRoles::Row& row : roles.rows)
      if (is_thief(row)) free = std::min(free, row.device.free_bytes);
  }
  const size_t needed = weight_bytes(config) * (own ? 1 : n_thieves + n_homes);
  const size_t room = free / 4 * 3;  // the rest is for KV caches
  const std::string sizes =
      fmt::format("{} MiB of weights, {} MiB of memory free", needed >> 20, free >> 20);
  if (needed <= room) {
    log_info("stealing: the weights fit on the consumer devices too ({})", sizes);
    return true;
  }
  if (config.steal == StealMode::kOn)
    return fail(ErrorKind::kResourceExhausted,
                fmt::format("--steal on: the weights do not fit a second time ({})", sizes));
  log_info("no stealing: the weights do not fit a second time ({})", sizes);
  return false;
}

std::vector<Device*> find_devices(const std::vector<std::unique_ptr<Device>>& devices,
                                  const std::vector<DeviceId>& ids) {
  std::vector<Device*> result;
  for (const DeviceId id : ids)
    for (const auto& device : devices)
      if (device->id() == id) result.push_back(device.get());
  return result;
}

Result<Gpus> find_usable_gpus(const Config& config) {
  auto gpus = find_gpus(config.device);
  if (gpus && !gpus->devices.empty() && config.dtype == DType::kF32)
    return fail(ErrorKind::kUnsupported,
                "--dtype float32 does not run on a GPU: use bfloat16, or --device cpu");
  if (gpus && gpus->devices.empty() && config.dtype == DType::kF16)
    return fail(ErrorKind::kUnsupported,
                "--dtype float16 runs on a GPU only: use bfloat16 or float32");
  return gpus;
}

// One device that does everything: the GPU that reads its memory fastest, or the CPU.
Result<std::unique_ptr<Device>> make_only_device(const Config& config, const Gpus& gpus) {
  if (gpus.devices.empty()) {
    // Nothing to tell where nobody installed the plug-in.
    if (gpus.is_installed) log_info("no GPU is used: {}", gpus.why_none);
    return make_cpu_device({.index = 0, .threads = config.threads, .cores = {}});
  }
  const auto best = std::ranges::max_element(gpus.devices, {}, &DeviceInfo::bandwidth_gbs);
  return gpus.plugin->make_device({.index = best->id.index, .dtype = config.dtype});
}

DeviceInfo info_of(DeviceId id, const Gpus& gpus) {
  const auto gpu = std::ranges::find(gpus.devices, id, &DeviceInfo::id);
  if (gpu != gpus.devices.end()) return *gpu;
  DeviceInfo info;
  info.id = id;
  return info;
}

// Makes the devices and says what is to be loaded on which.
Result<Placement> make_devices(const Config& config, ServedEngine& loaded) {
  const auto gpus = find_usable_gpus(config);
  if (!gpus) return std::unexpected(gpus.error());
  if (config.is_plain()) {
    auto device = make_only_device(config, *gpus);
    if (!device) return std::unexpected(device.error());
    loaded.devices.push_back(*std::move(device));
    loaded.rows.push_back(
        {info_of(loaded.devices.front()->id(), *gpus), true, true, "the only device"});
    return place({}, {loaded.devices.front().get()}, Partition::kColocated, false);
  }
  const auto roles = choose_roles(config, take_inventory(*gpus));
  if (!roles) return std::unexpected(roles.error());
  if (Status sensible = check_roles(config, *roles); !sensible)
    return std::unexpected(sensible.error());
  auto devices = make_role_devices(config, *gpus, roles->rows);
  if (!devices) return std::unexpected(devices.error());
  loaded.devices = *std::move(devices);
  loaded.roles = roles_table(config, *roles);
  loaded.rows = roles->rows;
  const std::vector<Device*> consumer = find_devices(loaded.devices, roles->consumer);
  const std::vector<Device*> datacenter = find_devices(loaded.devices, roles->datacenter);
  if (roles->one_device()) return place({}, datacenter, Partition::kColocated, false);
  const auto steals = thieves_fit(config, *roles);
  if (!steals) return std::unexpected(steals.error());
  return place(consumer, datacenter, config.partition, *steals, config.tensor_parallel);
}

// Whether some tower encodes for a language model on another device.
bool crosses(const Placement& placement) {
  if (placement.own_towers) return false;
  return std::ranges::any_of(placement.tower_devices, [&](const Device* tower) {
    return std::ranges::any_of(placement.language_devices, [&](const DeviceGroup& group) {
      return group.ranks.front() != tower;
    });
  });
}

// Where a picture crosses and how many bytes one of common size takes there.
std::string describe_cut(const ServedEngine& loaded, const Placement& placement) {
  const ModelSpec& spec = loaded.model.spec;
  if (!spec.has_vision) return {};
  if (!loaded.pictures_cross) return "cut: pictures stay on the device that answers\n";
  constexpr int32_t kWidth = 640;
  constexpr int32_t kHeight = 480;
  const auto n_rows = loaded.model.prompts->tokens_of(kWidth, kHeight, {});
  const DType dtype = placement.language_devices.front().ranks.front()->activation_dtype();
  const auto bytes = [&](int32_t width) {
    return n_rows.value_or(0) * width * static_cast<int64_t>(dtype_bytes(dtype));
  };
  const bool pre = spec.cut_before_projector;
  return fmt::format(
      "cut {} the projector: {} rows of {} {} = {} bytes for a picture of {} x {} ({} it: {})\n",
      pre ? "before" : "after", n_rows.value_or(0), spec.tower_dim(), dtype_name(dtype),
      bytes(spec.tower_dim()), kWidth, kHeight, pre ? "after" : "before",
      bytes(pre ? spec.dim : spec.feature_dim));
}

// What the files are read with; without devices no weights are.
LoadOptions load_options(const Config& config) {
  LoadOptions options;
  options.path = config.model;
  options.dtype = config.dtype;
  options.block_size = config.block_size;
  options.max_step_tokens = config.max_num_batched_tokens;
  options.max_model_len = config.max_model_len;
  options.max_encode_patches = config.max_encode_patches;
  return options;
}

}  // namespace

size_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  size_t kib = 0;
  while (file >> name >> kib && std::getline(file, unit))
    if (name == "MemAvailable:") return kib * 1024;
  return size_t{4} << 30;
}

Result<std::vector<std::unique_ptr<Device>>> open_devices(const Config& config) {
  ServedEngine opened;
  const auto placement = make_devices(config, opened);
  if (!placement) return std::unexpected(placement.error());
  return std::move(opened.devices);
}

Status check_kv_room(const Config& config, size_t block_bytes, size_t n_units, size_t free_bytes) {
  const auto blocks = static_cast<size_t>(config.kv_blocks);
  if (blocks <= free_bytes / std::max<size_t>(block_bytes * n_units, 1)) return {};
  const std::string caches = n_units == 1 ? "take" : fmt::format("of {} KV caches take", n_units);
  return fail(ErrorKind::kResourceExhausted,
              fmt::format("--kv-blocks {} {} {} MiB, and {} MiB of memory are free for them; lower "
                          "--kv-blocks, or leave it out",
                          config.kv_blocks, caches, (blocks * block_bytes * n_units) >> 20,
                          free_bytes >> 20));
}

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

Result<int32_t> gpu_kv_blocks(const Config& config, int32_t max_model_len, size_t block_bytes,
                              size_t free_bytes) {
  const int64_t per_sequence = (max_model_len + config.block_size - 1) / config.block_size;
  const auto room = static_cast<int64_t>(free_bytes / 10 * 9 / std::max<size_t>(block_bytes, 1));
  if (room < per_sequence)
    return fail(
        ErrorKind::kResourceExhausted,
        fmt::format("the KV cache of one sequence of {} tokens takes {} MiB and the GPU has "
                    "{} MiB left beside the weights; lower --max-model-len or set "
                    "--kv-blocks",
                    max_model_len, static_cast<size_t>(per_sequence) * block_bytes >> 20,
                    free_bytes >> 20));
  constexpr int64_t kMost = 100'000'000;
  return static_cast<int32_t>(std::min(room, kMost));
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

Result<std::vector<std::unique_ptr<Device>>> make_role_devices(
    const Config& config, const Gpus& gpus, const std::vector<DeviceRoles::Row>& rows) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<int> cpu_indices;
  for (const DeviceRoles::Row& row : rows) {
    const DeviceId id = row.device.id;
    if (id.kind == DeviceId::Kind::kCpu) {
      cpu_indices.push_back(id.index);
      continue;
    }
    auto device = gpus.plugin->make_device({.index = id.index, .dtype = config.dtype});
    if (!device) return std::unexpected(device.error());
    devices.push_back(*std::move(device));
  }
  if (!devices.empty() && !cpu_indices.empty())
    return fail(ErrorKind::kUnsupported,
                fmt::format("{} and cpu:{} cannot serve one model: their activations differ; name "
                            "GPUs or CPU devices alone",
                            to_string(devices.front()->id()), cpu_indices.front()));
  if (!devices.empty()) return devices;
  if (config.dtype == DType::kF16)
    return fail(ErrorKind::kUnsupported,
                fmt::format("--dtype float16 runs on a GPU only, not on cpu:{}: use bfloat16 or "
                            "float32",
                            cpu_indices.front()));
  std::ranges::sort(cpu_indices);
  return make_cpu_devices(cpu_indices, {.index = 0, .threads = config.threads, .cores = {}});
}

Status check_start(const Config& config) {
  if (Status path = check_model_path(config); !path) return path;
  const auto gpus = find_usable_gpus(config);
  if (!gpus) return std::unexpected(gpus.error());
  KvMemory memory;
  if (config.is_plain()) {
    for (const DeviceInfo& gpu : gpus->devices)  // make_only_device() takes one of them
      memory.gpu_bytes = std::max(memory.gpu_bytes, gpu.free_bytes);
  } else {
    const auto roles = choose_roles(config, take_inventory(*gpus));
    if (!roles) return std::unexpected(roles.error());
    if (Status sensible = check_roles(config, *roles); !sensible) return sensible;
    memory.n_units = roles->datacenter.size() / static_cast<size_t>(config.tensor_parallel);
    for (const DeviceRoles::Row& row : roles->rows)
      if (row.is_datacenter && row.device.id.kind == DeviceId::Kind::kCuda)
        memory.gpu_bytes = memory.gpu_bytes == 0
                               ? row.device.free_bytes
                               : std::min(memory.gpu_bytes, row.device.free_bytes);
  }
  const auto model = load_model(load_options(config));
  if (!model) return std::unexpected(model.error());
  if (Status cut = check_cut(config, model->spec); !cut) return cut;
  const auto max_model_len = resolve_max_model_len(config, model->spec);
  if (!max_model_len) return std::unexpected(max_model_len.error());
  // What the caches will find, beside the weights.
  const size_t weights = weight_bytes(config);
  const size_t available = available_memory_bytes();
  memory.free_bytes = available - std::min(weights * memory.n_units, available);
  if (memory.gpu_bytes > 0) {
    const size_t share = weights / static_cast<size_t>(config.tensor_parallel);
    memory.gpu_bytes -= std::min(share, memory.gpu_bytes - 1);
  }
  const auto kv_blocks = resolve_kv_blocks(config, *max_model_len, model->spec, memory);
  return kv_blocks ? Status() : std::unexpected(kv_blocks.error());
}

Result<std::unique_ptr<ServedEngine>> load_engine(const Config& config, const Clock& clock,
                                                  std::function<void()> wake,
                                                  LoadProgress progress) {
  const int64_t begin_us = clock.now_us();
  auto loaded = std::make_unique<ServedEngine>();
  const auto placement = make_devices(config, *loaded);
  if (!placement) return std::unexpected(placement.error());

  LoadOptions load = load_options(config);
  load.vision_devices = placement->tower_devices;
  load.language_devices = placement->language_devices;
  loaded->pictures_cross = crosses(*placement);
  load.cut = loaded->pictures_cross ? config.cut : CutChoice::kPost;
  load.progress = std::move(progress);
  auto model = load_model(load);
  if (!model) return std::unexpected(model.error());
  loaded->model = *std::move(model);
  if (const Status cut = check_cut(config, loaded->model.spec); !cut)
    return std::unexpected(cut.error());
  for (const std::string& setting :
       settings_without_effect(config, {.several_devices = loaded->devices.size() > 1,
                                        .pictures_cross = loaded->pictures_cross}))
    log_warning("{}", setting);
  if (!loaded->roles.empty()) loaded->roles += describe_cut(*loaded, *placement);

  const auto max_model_len = resolve_max_model_len(config, loaded->model.spec);
  if (!max_model_len) return std::unexpected(max_model_len.error());
  const auto kv_blocks = resolve_kv_blocks(config, *max_model_len, loaded->model.spec,
                                           {.n_units = placement->language_devices.size(),
                                            .free_bytes = available_memory_bytes(),
                                            .gpu_bytes = free_on_gpus(*placement)});
  if (!kv_blocks) return std::unexpected(kv_blocks.error());

  EngineConfig engine_config;
  engine_config.max_model_len = *max_model_len;
  engine_config.max_num_seqs = config.max_num_seqs;
  engine_config.max_num_batched_tokens = config.max_num_batched_tokens;
  engine_config.kv_blocks = *kv_blocks;
  engine_config.max_queue = config.max_queue;
  engine_config.max_encode_images = load.max_encode_images;
  engine_config.steal = config.steal;
  engine_config.steal_delay_us = int64_t{config.steal_delay_ms} * 1000;
  engine_config.steal_pause_us = int64_t{config.steal_pause_ms} * 1000;
  EngineTopology topology = make_topology(loaded->model, *placement);
  topology.transfer = config.transfer;
  topology.verify_transfers = config.verify_transfers;
  auto engine = Engine::create(loaded->model, topology, engine_config, clock, std::move(wake));
  if (!engine) return std::unexpected(engine.error());
  loaded->engine = *std::move(engine);
  loaded->served = describe(config, *loaded, clock, *max_model_len);
  loaded->load_s = static_cast<double>(clock.now_us() - begin_us) * 1e-6;
  return loaded;
}

}  // namespace hs
