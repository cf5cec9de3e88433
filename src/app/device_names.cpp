#include "app/device_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "app/device_roles.h"

namespace hs {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<int> number(std::string_view text, int base = 10) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// [domain:]bus:device.function, hexadecimal; domains are written with four digits or eight.
struct PciAddress {
  std::optional<int> domain;
  int bus = 0;
  int device = 0;
  int function = 0;

  bool matches(const PciAddress& other) const {
    return bus == other.bus && device == other.device && function == other.function &&
           (!domain || !other.domain || *domain == *other.domain);
  }
};

std::optional<PciAddress> parse_pci(std::string_view text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const size_t colon = text.substr(0, dot).rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view front = text.substr(0, colon);
  PciAddress address;
  if (const size_t first = front.rfind(':'); first != std::string_view::npos) {
    address.domain = number(front.substr(0, first), 16);
    if (!address.domain) return std::nullopt;
    front = front.substr(first + 1);
  }
  const auto bus = number(front, 16);
  const auto device = number(text.substr(colon + 1, dot - colon - 1), 16);
  const auto function = number(text.substr(dot + 1), 16);
  if (!bus || !device || !function) return std::nullopt;
  address.bus = *bus;
  address.device = *device;
  address.function = *function;
  return address;
}

std::unexpected<Error> not_found(std::string message) {
  return fail(ErrorKind::kNotFound, std::move(message));
}

// "cuda:0 (NVIDIA A100 80GB PCIe, 0000:41:00.0, GPU-1f2e...)"
std::string described(const DeviceInfo& device) {
  std::string text = fmt::format("{} ({}", to_string(device.id), device.name);
  for (const std::string& more : {device.pci, device.uuid}) {
    if (!more.empty()) text += ", " + more;
  }
  return text + ")";
}

// What an entry could have named.
std::string all_devices(const DeviceInventory& inventory) {
  std::string all;
  for (const DeviceInfo& gpu : inventory.gpus) all += described(gpu) + ", ";
  const std::string last =
      inventory.n_cores > 1 ? fmt::format(" to cpu:{}", inventory.n_cores - 1) : "";
  return fmt::format("{}cpu:0{} ({})", all, last, inventory.cpu.name);
}

Result<DeviceId> find_cpu(std::optional<int> index, const DeviceInventory& inventory) {
  if (!index || *index >= inventory.n_cores)
    return not_found(fmt::format("CPU devices are cpu:0 to cpu:{}, one for each core at most",
                                 inventory.n_cores - 1));
  return DeviceId{DeviceId::Kind::kCpu, *index};
}

Result<DeviceId> find_gpu(std::optional<int> index, const DeviceInventory& inventory) {
  for (const DeviceInfo& gpu : inventory.gpus) {
    if (index && gpu.id.index == *index) return gpu.id;
  }
  const std::string why =
      inventory.why_no_gpu.empty() ? "" : fmt::format(" ({})", inventory.why_no_gpu);
  return not_found(fmt::format(
      "{}; there are {}",
      inventory.gpus.empty() ? "no GPU can be used here" + why : std::string("no such GPU"),
      all_devices(inventory)));
}

// The one of `devices` that fits.
template <typename Fits>
Result<DeviceId> find_only(const std::vector<DeviceInfo>& devices, const DeviceInventory& inventory,
                           const Fits& fits) {
  std::optional<DeviceId> found;
  std::string all;
  int n = 0;
  for (const DeviceInfo& device : devices) {
    if (!fits(device)) continue;
    found = device.id;
    ++n;
    all += (all.empty() ? "" : ", ") + described(device);
  }
  if (n > 1) return fail(ErrorKind::kInvalidArgument, fmt::format("{} devices fit: {}", n, all));
  if (n == 0) return not_found(fmt::format("no such device; there are {}", all_devices(inventory)));
  return *found;
}

Result<DeviceId> find_name(const std::string& text, const DeviceInventory& inventory) {
  std::vector<DeviceInfo> named = inventory.gpus;
  named.push_back(inventory.cpu);
  return find_only(named, inventory, [&](const DeviceInfo& device) {
    return lower(device.name).find(text) != std::string::npos;
  });
}

}  // namespace

Result<DeviceId> find_device(std::string_view entry, const DeviceInventory& inventory) {
  const std::string text = lower(entry);
  if (text.empty()) return not_found("an empty name");
  if (text == "cpu") return find_cpu(0, inventory);
  if (text.starts_with("cpu:")) return find_cpu(number(text.substr(4)), inventory);
  if (text.starts_with("cuda:")) return find_gpu(number(text.substr(5)), inventory);
  if (const auto index = number(text)) {
    const auto found =
        inventory.gpus.empty() ? find_cpu(index, inventory) : find_gpu(index, inventory);
    if (found) return found;
    const auto named = find_name(text, inventory);  // as in "4090"
    return named || named.error().kind == ErrorKind::kInvalidArgument ? named : found;
  }
  if (const auto address = parse_pci(text))
    return find_only(inventory.gpus, inventory, [&](const DeviceInfo& device) {
      const auto own = parse_pci(lower(device.pci));
      return own && own->matches(*address);
    });
  if (text.starts_with("gpu-") || text.starts_with("mig-"))
    return find_only(inventory.gpus, inventory, [&](const DeviceInfo& device) {
      return lower(device.uuid).starts_with(text);
    });
  return find_name(text, inventory);
}

}  // namespace hs
