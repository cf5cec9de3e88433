// Devices, the models on them and the engine that runs them: what `serve` and `run` share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/served_model.h"
#include "app/config.h"
#include "app/device_roles.h"
#include "app/gpus.h"
#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "engine/engine.h"
#include "model/model.h"

namespace hs {

struct ServedEngine {
  std::vector<std::unique_ptr<Device>> devices;
  Model model;
  std::unique_ptr<Engine> engine;  // stops its lanes before the model goes
  std::shared_ptr<const ServedModel> served;
  // For people: a table of what was chosen and why, and what a picture costs between devices. Empty
  // with one device.
  std::string roles;
  std::vector<DeviceRoles::Row> rows;  // the devices and what for, also of one alone
  bool pictures_cross = false;         // some tower encodes for a language model on another device
  double load_s = 0;
};

// Reads the checkpoint and sizes all memory; any thread, seconds to minutes. `wake` as in
// Engine::create, `progress` as in LoadOptions; `clock` must outlive the result.
Result<std::unique_ptr<ServedEngine>> load_engine(const Config& config, const Clock& clock,
                                                  std::function<void()> wake,
                                                  LoadProgress progress = {});

// Main memory that programs may still take, from /proc/meminfo.
size_t available_memory_bytes();

// The devices that the settings name, with nothing on them.
Result<std::vector<std::unique_ptr<Device>>> open_devices(const Config& config);

// Blocks of the KV cache when none are given: what max_num_seqs sequences of max_model_len can use,
// but at most what `free_bytes` / 4 holds. kResourceExhausted when not even one such sequence fits.
Result<int32_t> default_kv_blocks(const Config& config, int32_t max_model_len, size_t block_bytes,
                                  size_t free_bytes);

// The same on GPUs: as many as fit 0.9 of the memory that is free beside the weights. The rest is
// for embeddings and what the driver takes.
Result<int32_t> gpu_kv_blocks(const Config& config, int32_t max_model_len, size_t block_bytes,
                              size_t free_bytes);
// Whether --kv-blocks of n_units KV caches fit free_bytes. kResourceExhausted names the flag.
Status check_kv_room(const Config& config, size_t block_bytes, size_t n_units, size_t free_bytes);

// The devices of the rows; CPU devices in the order of their indices, that of their shares of the
// cores. GPUs and CPU devices together are kUnsupported.
Result<std::vector<std::unique_ptr<Device>>> make_role_devices(
    const Config& config, const Gpus& gpus, const std::vector<DeviceRoles::Row>& rows);

// The names that clients may use, the same before and after the load; at least one.
std::vector<std::string> served_names(const Config& config);

// A wrong path is found here, before anything is bound or loaded.
Status check_model_path(const Config& config);

// What else can be known without loading a weight: devices that are not there, files of the
// checkpoint that contradict each other, limits beyond the model's, a KV cache that memory has no
// room for beside the weights. Reads the tokenizer, and measures the CPU where roles are chosen:
// tenths of a second. A load may still fail, with the same exit status (kExitConfig).
Status check_start(const Config& config);

}  // namespace hs
