#include "app/device_roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <utility>

#include "app/device_names.h"
#include "base/check.h"
#include "device/cpu/cpu_devices.h"

namespace hs {
namespace {

constexpr double kAlikeMin = 0.8;  // of the fastest's bandwidth

bool holds(const std::vector<DeviceId>& devices, DeviceId id) {
  return std::ranges::find(devices, id) != devices.end();
}

struct Role {
  std::string_view flag;
  const std::vector<std::string>& entries;
  std::vector<DeviceId> devices;
  std::string why;

  bool is_auto() const { return entries.empty() || entries.front() == "auto"; }
};

Status resolve_named(Role& role, const DeviceInventory& inventory) {
  for (const std::string& entry : role.entries) {
    if (entry == "auto")
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("{}: auto stands alone, not among devices", role.flag));
    const Result<DeviceId> id = find_device(entry, inventory);
    if (!id)
      return fail(id.error().kind, fmt::format("{} {}: {}", role.flag, entry, id.error().message));
    if (holds(role.devices, *id))
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} {}: {} is named twice", role.flag, entry, to_string(*id)));
    role.devices.push_back(*id);
  }
  role.why = fmt::format("named by {}", role.flag);
  return {};
}

struct Tiers {
  std::vector<DeviceId> fast;  // memory
  std::vector<DeviceId> slow;  // the most compute first
};

Tiers split_by_bandwidth(std::vector<DeviceInfo> devices) {
  double fastest = 0;
  for (const DeviceInfo& device : devices) fastest = std::max(fastest, device.bandwidth_gbs);
  std::ranges::stable_sort(devices, std::ranges::greater(), &DeviceInfo::gflops);
  Tiers tiers;
  for (const DeviceInfo& device : devices)
    (device.bandwidth_gbs >= kAlikeMin * fastest ? tiers.fast : tiers.slow).push_back(device.id);
  return tiers;
}

// What auto may choose from, besides `taken`.
std::vector<DeviceInfo> candidates(const DeviceInventory& inventory,
                                   const std::vector<DeviceId>& taken) {
  std::vector<DeviceInfo> left;
  if (inventory.gpus.empty() && taken.empty()) left.push_back(inventory.cpu);
  for (const DeviceInfo& gpu : inventory.gpus)
    if (!holds(taken, gpu.id)) left.push_back(gpu);
  return left;
}

void choose_both(Role& consumer, Role& datacenter, const DeviceInventory& inventory) {
  const Tiers tiers = split_by_bandwidth(candidates(inventory, {}));
  datacenter.devices = tiers.fast;
  consumer.devices = tiers.slow.empty() ? tiers.fast : tiers.slow;
  datacenter.why = "auto: fastest memory";
  consumer.why = "auto: slower memory";
  if (tiers.slow.empty())
    consumer.why = datacenter.why =
        tiers.fast.size() == 1 ? "auto: the only device" : "auto: devices are alike";
}

void choose_one(Role& role, bool is_consumer, const Role& other, const DeviceInventory& inventory) {
  const Tiers tiers = split_by_bandwidth(candidates(inventory, other.devices));
  role.devices = is_consumer && !tiers.slow.empty() ? tiers.slow : tiers.fast;
  role.why = is_consumer ? "auto: left for pictures" : "auto: fastest memory left";
  if (!role.devices.empty()) return;
  role.devices = other.devices;
  role.why = "auto: no other device";
}

DeviceInfo info_of(DeviceId id, const DeviceInventory& inventory,
                   const std::vector<int>& cpu_indices) {
  if (id.kind == DeviceId::Kind::kCuda)
    return *std::ranges::find(inventory.gpus, id, &DeviceInfo::id);
  // Shares as make_cpu_devices() cuts them.
  const auto n = static_cast<int32_t>(cpu_indices.size());
  const auto position =
      static_cast<int32_t>(std::ranges::find(cpu_indices, id.index) - cpu_indices.begin());
  const int32_t n_cores = inventory.n_cores / n + (position < inventory.n_cores % n ? 1 : 0);
  const double share = static_cast<double>(n_cores) / inventory.n_cores;
  DeviceInfo info = inventory.cpu;
  info.id = id;
  info.memory_bytes /= static_cast<size_t>(n);
  info.free_bytes /= static_cast<size_t>(n);
  info.gflops *= share;
  info.bandwidth_gbs *= share;
  info.name += fmt::format(", {} core{}", n_cores, n_cores == 1 ? "" : "s");
  return info;
}

std::vector<DeviceRoles::Row> make_rows(const Role& consumer, const Role& datacenter,
                                        const DeviceInventory& inventory) {
  std::vector<DeviceId> used = consumer.devices;
  for (const DeviceId id : datacenter.devices)
    if (!holds(used, id)) used.push_back(id);
  std::vector<int> cpu_indices;
  for (const DeviceId id : used)
    if (id.kind == DeviceId::Kind::kCpu) cpu_indices.push_back(id.index);
  std::ranges::sort(cpu_indices);
  std::vector<DeviceRoles::Row> rows;
  for (const DeviceId id : used) {
    DeviceRoles::Row row{.device = info_of(id, inventory, cpu_indices),
                         .is_consumer = holds(consumer.devices, id),
                         .is_datacenter = holds(datacenter.devices, id),
                         .why = {}};
    row.why = row.is_consumer ? consumer.why : datacenter.why;
    if (row.is_consumer && row.is_datacenter && datacenter.why != consumer.why)
      row.why += "; " + datacenter.why;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string names(const std::vector<DeviceId>& devices) {
  std::string out;
  for (const DeviceId id : devices) out += (out.empty() ? "" : ", ") + to_string(id);
  return out;
}

// Datacenter devices in groups of `size`.
std::string group_names(const std::vector<DeviceId>& devices, int32_t size) {
  if (size == 1) return names(devices);
  std::string out;
  for (size_t i = 0; i < devices.size(); ++i) {
    const bool begins = i % static_cast<size_t>(size) == 0;
    out += fmt::format("{}{}", i == 0 ? "" : begins ? ", " : " + ", to_string(devices[i]));
  }
  return out + " (tensor parallel)";
}

std::string summary(const Config& config, const DeviceRoles& roles) {
  if (roles.one_device())
    return fmt::format("{} has both roles and serves whole requests", names(roles.consumer));
  switch (config.partition) {
    case Partition::kColocated:
      return "partition colocated: each device serves whole requests";
    case Partition::kStage:
      return fmt::format("partition stage: pictures and prompts on {}, answers on {}",
                         names(roles.consumer), names(roles.datacenter));
    case Partition::kModality:
      break;
  }
  return fmt::format("partition modality: pictures on {}, text on {}", names(roles.consumer),
                     group_names(roles.datacenter, config.tensor_parallel));
}

Result<DeviceRoles> choose_shared(const Config& config, Role& consumer, Role& datacenter,
                                  const DeviceInventory& inventory) {
  if (datacenter.is_auto() && datacenter.entries.size() <= 1) {
    choose_one(datacenter, false, consumer, inventory);
  } else if (Status resolved = resolve_named(datacenter, inventory); !resolved) {
    return std::unexpected(resolved.error());
  }
  for (size_t i = 0; i < datacenter.devices.size();
       i += static_cast<size_t>(config.tensor_parallel)) {
    consumer.devices.push_back(datacenter.devices[i]);
  }
  consumer.why = "first of its group";
  DeviceRoles roles;
  roles.rows = make_rows(consumer, datacenter, inventory);
  roles.consumer = std::move(consumer.devices);
  roles.datacenter = std::move(datacenter.devices);
  return roles;
}

}  // namespace

DeviceInventory take_inventory(const Gpus& gpus) {
  return {.gpus = gpus.devices,
          .why_no_gpu = gpus.why_none,
          .cpu = measure_cpu(),
          .n_cores = static_cast<int32_t>(process_core_places().size())};
}

Result<DeviceRoles> choose_roles(const Config& config, const DeviceInventory& inventory) {
  Role consumer{"--consumer", config.consumer, {}, {}};
  Role datacenter{"--datacenter", config.datacenter, {}, {}};
  if (config.tensor_parallel > 1 && config.consumer.empty() && !config.datacenter.empty())
    return choose_shared(config, consumer, datacenter, inventory);
  HS_CHECK_EQ(config.consumer.empty(), config.datacenter.empty());  // check_config()
  for (Role* role : {&consumer, &datacenter}) {
    if (role->is_auto() && role->entries.size() <= 1) continue;
    if (Status resolved = resolve_named(*role, inventory); !resolved)
      return std::unexpected(resolved.error());
  }
  if (consumer.is_auto() && datacenter.is_auto())
    choose_both(consumer, datacenter, inventory);
  else if (consumer.is_auto())
    choose_one(consumer, true, datacenter, inventory);
  else if (datacenter.is_auto())
    choose_one(datacenter, false, consumer, inventory);
  DeviceRoles roles;
  roles.rows = make_rows(consumer, datacenter, inventory);
  roles.consumer = std::move(consumer.devices);
  roles.datacenter = std::move(datacenter.devices);
  return roles;
}

Status check_roles(const Config& config, const DeviceRoles& roles) {
  const auto refuse = [](std::string message) {
    return fail(ErrorKind::kInvalidArgument, std::move(message));
  };
  const auto both = std::ranges::find_if(
      roles.rows, [](const auto& row) { return row.is_consumer && row.is_datacenter; });
  if (config.partition == Partition::kStage && both != roles.rows.end())
    return refuse(
        fmt::format("--partition stage moves the KV cache from one device to another; {} "
                    "has both roles",
                    to_string(both->device.id)));
  const bool has_thief = std::ranges::any_of(
      roles.rows, [](const auto& row) { return row.is_consumer && !row.is_datacenter; });
  if (config.steal == StealMode::kOn && !has_thief)
    return refuse(fmt::format("--steal on needs a consumer device of its own; {} {} both roles",
                              names(roles.consumer), roles.consumer.size() == 1 ? "has" : "have"));
  const auto n = static_cast<int32_t>(roles.datacenter.size());
  if (config.tensor_parallel > n || n % config.tensor_parallel != 0)
    return refuse(
        fmt::format("--tensor-parallel {} does not divide the {} datacenter device{} ({})",
                    config.tensor_parallel, n, n == 1 ? "" : "s", names(roles.datacenter)));
  return {};
}

std::string roles_table(const Config& config, const DeviceRoles& roles) {
  constexpr auto kLine = "{:<8} {:<22} {:>10} {:>10} {:>8}  {:<10} {:<28} {}\n";
  std::string out = fmt::format(fmt::runtime(kLine), "DEVICE", "ROLE", "FREE GiB", "GFLOP/s",
                                "GB/s", "RATES", "WHY", "NAME");
  for (const DeviceRoles::Row& row : roles.rows) {
    const char* role = row.is_consumer && row.is_datacenter ? "consumer + datacenter"
                       : row.is_consumer                    ? "consumer"
                                                            : "datacenter";
    out += fmt::format(
        fmt::runtime(kLine), to_string(row.device.id), role,
        fmt::format("{:.1f}", static_cast<double>(row.device.free_bytes) / (1 << 30)),
        fmt::format("{:.0f}", row.device.gflops), fmt::format("{:.1f}", row.device.bandwidth_gbs),
        row.device.basis, row.why, row.device.name);
  }
  return out + summary(config, roles) + "\n";
}

}  // namespace hs
