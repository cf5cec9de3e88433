// The table of settings, and how each value is read.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "app/config.h"
#include "fetch/media_policy.h"

namespace hs {
namespace {

Status invalid(std::string message) {
  return fail(ErrorKind::kInvalidArgument, std::move(message));
}

template <int32_t Config::* Member, int32_t kMin, int32_t kMax>
Status set_integer(Config& config, std::string_view value) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < kMin || number > kMax)
    return invalid(fmt::format("must be a whole number from {} to {}", kMin, kMax));
  config.*Member = number;
  return {};
}

template <std::string Config::* Member>
Status set_text(Config& config, std::string_view value) {
  config.*Member = value;
  return {};
}

template <std::vector<std::string> Config::* Member>
Status set_list(Config& config, std::string_view value) {
  std::vector<std::string> entries;
  while (!value.empty()) {
    const size_t comma = value.find(',');
    std::string_view entry = value.substr(0, comma);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (entry.empty()) return invalid("holds an empty name");
    entries.emplace_back(entry);
    value = comma == std::string_view::npos ? "" : value.substr(comma + 1);
    if (comma != std::string_view::npos && value.empty()) return invalid("holds an empty name");
  }
  config.*Member = std::move(entries);
  return {};
}

Status set_media_domains(Config& config, std::string_view value) {
  const Status set = set_list<&Config::allowed_media_domains>(config, value);
  if (!set) return set;
  const auto policy = MediaPolicy::make(config.allowed_media_domains, false);
  return policy ? Status() : std::unexpected(policy.error());
}

template <typename Value>
struct Word {
  std::string_view word;
  Value value;
};

// Reads one of some words; several may mean the same.
template <typename Value, size_t N>
Status set_word(Value& out, std::string_view value, const Word<Value> (&words)[N],
                std::string_view must) {
  for (const auto& [word, meaning] : words) {
    if (value != word) continue;
    out = meaning;
    return {};
  }
  return invalid(fmt::format("must be {}", must));
}

Status set_device(Config& config, std::string_view value) {
  return set_word<DeviceChoice>(
      config.device, value,
      {{"auto", DeviceChoice::kAuto}, {"cuda", DeviceChoice::kCuda}, {"cpu", DeviceChoice::kCpu}},
      "auto, cuda or cpu");
}

Status set_partition(Config& config, std::string_view value) {
  return set_word<Partition>(config.partition, value,
                             {{"modality", Partition::kModality},
                              {"stage", Partition::kStage},
                              {"colocated", Partition::kColocated}},
                             "modality, stage or colocated");
}

Status set_transfer(Config& config, std::string_view value) {
  return set_word<LinkChoice>(
      config.transfer, value,
      {{"auto", LinkChoice::kAuto}, {"peer", LinkChoice::kPeer}, {"staged", LinkChoice::kStaged}},
      "auto, peer or staged");
}

Status set_cut(Config& config, std::string_view value) {
  return set_word<CutChoice>(
      config.cut, value,
      {{"auto", CutChoice::kAuto}, {"pre", CutChoice::kPre}, {"post", CutChoice::kPost}},
      "auto, pre or post");
}

// TOML's true and false are the same as on and off.
Status set_steal(Config& config, std::string_view value) {
  return set_word<StealMode>(config.steal, value,
                             {{"auto", StealMode::kAuto},
                              {"on", StealMode::kOn},
                              {"true", StealMode::kOn},
                              {"off", StealMode::kOff},
                              {"false", StealMode::kOff}},
                             "off, on or auto");
}

template <bool Config::* Member>
Status set_switch(Config& config, std::string_view value) {
  return set_word<bool>(config.*Member, value,
                        {{"on", true}, {"true", true}, {"off", false}, {"false", false}},
                        "on or off");
}

Status read_price(std::string_view value, double& price) {
  constexpr double kPriceMax = 1e9;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), price);
  if (error == std::errc() && end == value.data() + value.size() && price >= 0 &&
      price <= kPriceMax)
    return {};
  return invalid("must be a price, 0 or more");
}

Status set_price_kwh(Config& config, std::string_view value) {
  return read_price(value, config.price_kwh);
}

Status set_price_device_hour(Config& config, std::string_view value) {
  constexpr std::string_view kMust =
      "must be DEVICE=PRICE, separated by commas, as cpu=0.05,cuda:0=1.2";
  std::map<std::string, double> prices;
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::string_view entry = value.substr(0, comma);
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) return invalid(std::string(kMust));
    double price = 0;
    const std::string_view device = entry.substr(0, equals);
    if (!device.starts_with("cpu") && !device.starts_with("cuda"))
      return invalid(std::string(kMust));
    if (const Status read = read_price(entry.substr(equals + 1), price); !read)
      return invalid(std::string(kMust));
    prices.insert_or_assign(std::string(device), price);
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  config.price_device_hour = std::move(prices);
  return {};
}

Status set_dtype(Config& config, std::string_view value) {
  if (value == "auto" || value == "bfloat16")
    config.dtype = DType::kBF16;
  else if (value == "float16" || value == "half")
    config.dtype = DType::kF16;
  else if (value == "float32" || value == "float")
    config.dtype = DType::kF32;
  else
    return invalid("must be auto, bfloat16, float16 or float32");
  return {};
}

Status set_images(Config& config, std::string_view value) {
  constexpr std::string_view kPrefix = "image=";
  if (!value.starts_with(kPrefix)) return invalid("must be image=N");
  const Status set =
      set_integer<&Config::images_max, 0, 1000>(config, value.substr(kPrefix.size()));
  return set ? set : invalid("must be image=N with N from 0 to 1000");
}

Status set_log_level(Config& config, std::string_view value) {
  if (value == "debug")
    config.log_level = LogLevel::kDebug;
  else if (value == "info")
    config.log_level = LogLevel::kInfo;
  else if (value == "warning")
    config.log_level = LogLevel::kWarning;
  else if (value == "error")
    config.log_level = LogLevel::kError;
  else
    return invalid("must be debug, info, warning or error");
  return {};
}

constexpr int32_t kMany = 1'000'000;

constexpr Setting kSettings[] = {
    {"--model", "model.path", "HETEROSERVE_MODEL", "", "MODEL",
     "Checkpoint in Hugging Face layout, or a model of the store by name; may also be given "
     "without "
     "the flag. None: serve begins without a model",
     set_text<&Config::model>},
    {"--models-dir", "model.store", "HETEROSERVE_MODELS_DIR", "", "DIR",
     "The model store, filled by `heteroserve pull` and `import`; default: models in the state "
     "directory",
     set_text<&Config::models_dir>},
    {"--served-model-name", "model.served_model_name", "HETEROSERVE_SERVED_MODEL_NAME", "", "NAMES",
     "Names clients may use, separated by commas; default: the directory's name",
     set_list<&Config::served_model_names>},
    {"--dtype", "model.dtype", "HETEROSERVE_DTYPE", "auto", "TYPE",
     "How weights and KV cache are stored: auto, bfloat16, float16 (on GPUs) or float32 (on CPUs)",
     set_dtype},
    {"--max-model-len", "model.max_model_len", "HETEROSERVE_MAX_MODEL_LEN", "0", "N",
     "Tokens of prompt and answer together; 0: what the model has",
     set_integer<&Config::max_model_len, 0, 100 * kMany>},
    {"--host", "server.host", "HETEROSERVE_HOST", "127.0.0.1", "ADDRESS", "Address to listen at",
     set_text<&Config::host>},
    {"--port", "server.port", "HETEROSERVE_PORT", "8080", "N", "Port to listen at; 0: a free one",
     set_integer<&Config::port, 0, 65535>},
    {"--shutdown-timeout", "server.shutdown_timeout", "HETEROSERVE_SHUTDOWN_TIMEOUT", "60",
     "SECONDS", "How long answers under way may take after SIGTERM",
     set_integer<&Config::shutdown_timeout_s, 0, 86400>},
    {"--max-body-mib", "server.max_body_mib", "HETEROSERVE_MAX_BODY_MIB", "0", "N",
     "Largest request body; 0: what the picture limits need, at least 64",
     set_integer<&Config::max_body_mib, 0, 65536>},
    {"--max-connections", "server.max_connections", "HETEROSERVE_MAX_CONNECTIONS", "0", "N",
     "Connections at a time; one more gets 503; 0: the queue, the batch and 1,024 more. The limit "
     "of "
     "open files bounds both",
     set_integer<&Config::max_connections, 0, kMany>},
    {"--limit-mm-per-prompt", "images.limit_mm_per_prompt", "HETEROSERVE_LIMIT_MM_PER_PROMPT",
     "image=8", "image=N", "Pictures in one conversation", set_images},
    {"--max-image-mib", "images.max_image_mib", "HETEROSERVE_MAX_IMAGE_MIB", "20", "N",
     "Largest picture, compressed", set_integer<&Config::max_image_mib, 1, 1024>},
    {"--allowed-media-domains", "images.allowed_media_domains", "HETEROSERVE_ALLOWED_MEDIA_DOMAINS",
     "", "HOSTS",
     "Hosts that pictures given by http(s) URL are fetched from, separated by commas: example.org, "
     "*.example.org, example.org:8080, or * for every host; none: pictures are not fetched. May be "
     "repeated",
     set_media_domains, true},
    {"--allow-private-media", "images.allow_private_media", "HETEROSERVE_ALLOW_PRIVATE_MEDIA",
     "off", "SWITCH",
     "Those hosts may have private and loopback addresses, too: for a picture host of your own "
     "network. On or off",
     set_switch<&Config::allow_private_media>},
    {"--media-timeout", "images.media_timeout", "HETEROSERVE_MEDIA_TIMEOUT", "10", "SECONDS",
     "How long fetching one picture may take", set_integer<&Config::media_timeout_s, 1, 600>},
    {"--max-encode-patches", "images.max_encode_patches", "HETEROSERVE_MAX_ENCODE_PATCHES", "16384",
     "N",
     "Patches that a tower for pictures of any size encodes at once; larger pictures are scaled "
     "down. Bounds its work memory",
     set_integer<&Config::max_encode_patches, 64, kMany>},
    {"--max-num-seqs", "engine.max_num_seqs", "HETEROSERVE_MAX_NUM_SEQS", "64", "N",
     "Sequences in one step", set_integer<&Config::max_num_seqs, 1, 65536>},
    {"--max-num-batched-tokens", "engine.max_num_batched_tokens",
     "HETEROSERVE_MAX_NUM_BATCHED_TOKENS", "512", "N", "Tokens in one step",
     set_integer<&Config::max_num_batched_tokens, 1, kMany>},
    {"--block-size", "engine.block_size", "HETEROSERVE_BLOCK_SIZE", "16", "N",
     "Tokens in one block of the KV cache", set_integer<&Config::block_size, 1, 256>},
    {"--kv-blocks", "engine.kv_blocks", "HETEROSERVE_KV_BLOCKS", "0", "N",
     "Blocks of the KV cache; 0: what a GPU has room for, or on the CPU as many as sequences can "
     "use, "
     "within a quarter of the free memory",
     set_integer<&Config::kv_blocks, 0, 100 * kMany>},
    {"--max-queue", "engine.max_queue", "HETEROSERVE_MAX_QUEUE", "256", "N",
     "Requests that may wait; one more gets 503", set_integer<&Config::max_queue, 1, kMany>},
    {"--hang-timeout", "engine.hang_timeout", "HETEROSERVE_HANG_TIMEOUT", "300", "SECONDS",
     "A device at one order for so long hangs: systemd's watchdog restarts the service; 0: never",
     set_integer<&Config::hang_timeout_s, 0, 86400>},
    {"--threads", "engine.threads", "HETEROSERVE_THREADS", "0", "N",
     "Threads that compute; 0: one a core", set_integer<&Config::threads, 0, 1024>},
    {"--device", "engine.device", "HETEROSERVE_DEVICE", "auto", "KIND",
     "What computes: auto (GPUs where there are some, else the CPU), cuda (GPUs, or no start) or "
     "cpu",
     set_device},
    {"--consumer", "tiers.consumer", "HETEROSERVE_CONSUMER", "", "DEVICES",
     "Devices for pictures, separated by commas: cpu:0, cuda:1, an index, UUID, PCI address, part "
     "of a name, or auto",
     set_list<&Config::consumer>},
    {"--datacenter", "tiers.datacenter", "HETEROSERVE_DATACENTER", "", "DEVICES",
     "Devices for text, named likewise", set_list<&Config::datacenter>},
    {"--partition", "tiers.partition", "HETEROSERVE_PARTITION", "modality", "PARTITION",
     "What the two roles do: modality (pictures, text), stage (pictures and prompts, answers) or "
     "colocated (each device all of it)",
     set_partition},
    {"--transfer", "tiers.transfer", "HETEROSERVE_TRANSFER", "auto", "PATH",
     "Copies between devices: auto, peer (an error where it fails) or staged", set_transfer},
    {"--cut", "tiers.cut", "HETEROSERVE_CUT", "auto", "CUT",
     "Pictures cross before or after the projector: pre, post or auto (fewest bytes)", set_cut},
    {"--verify-transfers", "tiers.verify_transfers", "HETEROSERVE_VERIFY_TRANSFERS", "on", "SWITCH",
     "Compare checksums of what left and what arrived: on or off",
     set_switch<&Config::verify_transfers>},
    {"--steal", "tiers.steal", "HETEROSERVE_STEAL", "auto", "MODE",
     "Idle consumer devices take text requests: off, on or auto (when predicted to be sooner)",
     set_steal},
    {"--steal-delay-ms", "tiers.steal_delay_ms", "HETEROSERVE_STEAL_DELAY_MS", "50", "MS",
     "Longest step of taken requests that a picture may have to wait for",
     set_integer<&Config::steal_delay_ms, 1, 60'000>},
    {"--steal-pause-ms", "tiers.steal_pause_ms", "HETEROSERVE_STEAL_PAUSE_MS", "2000", "MS",
     "A taken request that pictures paused for so long goes back",
     set_integer<&Config::steal_pause_ms, 0, 3'600'000>},
    {"--tensor-parallel", "tiers.tensor_parallel", "HETEROSERVE_TENSOR_PARALLEL", "1", "N",
     "Datacenter devices that share one language model; without --consumer the first of them "
     "encodes pictures, too",
     set_integer<&Config::tensor_parallel, 1, 64>},
    {"--keys-path", "auth.keys_path", "HETEROSERVE_KEYS_PATH", "", "FILE",
     "API keys (SQLite), made by `heteroserve keys`; default: keys.db in the state directory",
     set_text<&Config::keys_path>},
    {"--log-path", "log.path", "HETEROSERVE_LOG_PATH", "", "FILE",
     "Request log (SQLite); none: no log; default: requests.db in the state directory",
     set_text<&Config::log_path>},
    {"--log-retention-days", "log.retention_days", "HETEROSERVE_LOG_RETENTION_DAYS", "30", "DAYS",
     "Older rows of the request log are deleted, daily totals are not; 0: never",
     set_integer<&Config::log_retention_days, 0, 36500>},
    {"--log-retention-mib", "log.retention_mib", "HETEROSERVE_LOG_RETENTION_MIB", "2048", "N",
     "The oldest rows are deleted while the request log is larger; 0: any size",
     set_integer<&Config::log_retention_mib, 0, 100 * kMany>},
    {"--price-kwh", "cost.price_kwh", "HETEROSERVE_PRICE_KWH", "0", "PRICE",
     "Of a kilowatt hour, for the cost of requests; 0: none", set_price_kwh},
    {"--price-device-hour", "cost.price_device_hour", "HETEROSERVE_PRICE_DEVICE_HOUR", "", "PRICES",
     "Of an hour of each device, by name or kind: cpu=0.05,cuda:0=1.2", set_price_device_hour},
    {"--log-level", "log.level", "HETEROSERVE_LOG_LEVEL", "info", "LEVEL",
     "Diagnostics on stderr: debug, info, warning or error", set_log_level},
};

}  // namespace

std::span<const Setting> settings() {
  return kSettings;
}

}  // namespace hs
