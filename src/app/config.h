// The program's settings: one table of them, read from flags, environment, files and defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/log.h"
#include "base/status.h"
#include "device/peer_link.h"
#include "engine/partition.h"
#include "model/cut.h"

namespace hs {

// Which kind of device computes.
enum class DeviceChoice {
  kAuto,  // GPUs where there are some, else the CPU
  kCuda,  // GPUs, or no start
  kCpu,
};

struct Config {
  std::string model;       // checkpoint directory, or the name of a model in models_dir
  std::string models_dir;  // of the model store
  std::string host = "127.0.0.1";
  int32_t port = 8080;
  int32_t shutdown_timeout_s = 60;
  int32_t max_body_mib = 0;     // 0 = what the picture limits need
  int32_t max_connections = 0;  // 0 = what the queue needs, and some more
  std::vector<std::string> served_model_names;
  DType dtype = DType::kBF16;
  int32_t max_model_len = 0;  // 0 = the model's
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 512;
  int32_t block_size = 16;
  int32_t kv_blocks = 0;  // 0 = as many as sequences can use, within a share of the memory
  int32_t max_queue = 256;
  int32_t threads = 0;           // 0 = one a core
  int32_t hang_timeout_s = 300;  // of a device at one order; 0 = none
  int32_t images_max = 8;
  int32_t max_image_mib = 20;
  std::vector<std::string> allowed_media_domains;  // pictures are fetched from; empty = none are
  bool allow_private_media = false;
  int32_t media_timeout_s = 10;        // of one picture
  int32_t max_encode_patches = 16384;  // of all pictures in one encode() call
  DeviceChoice device = DeviceChoice::kAuto;
  // Devices of each role, as given (app/device_roles.h reads them); both empty = auto.
  std::vector<std::string> consumer;
  std::vector<std::string> datacenter;
  Partition partition = Partition::kModality;
  LinkChoice transfer = LinkChoice::kAuto;
  CutChoice cut = CutChoice::kAuto;
  bool verify_transfers = true;
  StealMode steal = StealMode::kAuto;
  int32_t steal_delay_ms = 50;
  int32_t steal_pause_ms = 2000;
  int32_t tensor_parallel = 1;
  std::string log_path;              // "none" = no log
  int32_t log_retention_days = 30;   // 0 = for ever
  int32_t log_retention_mib = 2048;  // 0 = any size
  // In any one currency; 0 or absent: no price. Of a device's hour by its name, or its kind.
  double price_kwh = 0;
  std::map<std::string, double> price_device_hour;
  std::string keys_path;  // API keys
  LogLevel log_level = LogLevel::kInfo;

  // Nothing to choose: one device does everything.
  bool is_plain() const {
    return consumer.empty() && partition == Partition::kModality && steal != StealMode::kOn &&
           tensor_parallel == 1;
  }
  // Whether requests are logged at all (--log-path none).
  bool keeps_log() const { return log_path != "none" && log_path != "/dev/null"; }
  double hour_price(DeviceId device) const;

  size_t pictures_body_bytes() const;  // a body with all allowed pictures, at their largest
  size_t body_bytes_max() const;
  size_t image_bytes_max() const { return static_cast<size_t>(max_image_mib) << 20; }
};

// One row of the table.
struct Setting {
  const char* flag;         // "--max-num-seqs", vLLM's spelling where vLLM has it
  const char* key;          // "engine.max_num_seqs" in TOML
  const char* environment;  // "HETEROSERVE_MAX_NUM_SEQS"
  const char* default_text;
  const char* value_name;  // "N"
  const char* description;
  // Reads one value; the error says what is wrong with it, without naming the setting.
  Status (*set)(Config& config, std::string_view value);
  bool repeats = false;  // a list whose flag may be given several times
};
std::span<const Setting> settings();

// Where a value came from, for `config show`.
struct SettingValue {
  std::string value;
  std::string origin;  // "flag", "environment", a file's path, "default"
};

struct ConfigSources {
  std::map<std::string, std::string, std::less<>> flags;  // by flag
  std::function<const char*(const char*)> environment;    // getenv
  std::optional<std::filesystem::path> file;  // --config; absent = the system's, if it is there
  std::filesystem::path system_file = "/etc/heteroserve/heteroserve.toml";
  // Where the installed service keeps its files, when this command is about these; "" = the user's.
  std::string service_state;
};

struct LoadedConfig {
  Config config;
  std::map<std::string, SettingValue, std::less<>> values;  // by key
  std::vector<std::string> files;                           // read, in the order they were applied
};

// Flag over environment over conf.d/*.toml beside the file, last name first, over the file over
// default. Errors (kInvalidArgument, kIo) name the setting and where it was set; an unknown key or
// HETEROSERVE_ variable is an error that names the nearest one. Without a model, the one that
// HETEROSERVE_DEFAULT_MODEL names (of the service: the shipped demo).
Result<LoadedConfig> load_config(const ConfigSources& sources,
                                 std::span<const char* const> environment_names);

// Limits and choices that contradict each other.
Status check_config(const Config& config);

// What the devices make of the settings about them.
struct DeviceFacts {
  bool several_devices = false;
  bool pictures_cross = false;  // from one to another
};
// Settings that were given and change nothing, one sentence each.
std::vector<std::string> settings_without_effect(const Config& config, const DeviceFacts& facts);
// That, as far as it shows without looking at the machine, and limits that work but serve badly.
std::vector<std::string> config_warnings(const Config& config);

// The candidate with the smallest edit distance to `word`; "" without candidates.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// $STATE_DIRECTORY (of the service), else `service_state` unless that is empty, else the user's
// state directory, with this file in it.
std::string default_state_path(const std::function<const char*(const char*)>& environment,
                               std::string_view file, std::string_view service_state = {});
std::string default_log_path(const std::function<const char*(const char*)>& environment);

}  // namespace hs
