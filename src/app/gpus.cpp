#include "app/gpus.h"

#include <string>
#include <utility>

#include "api/version.h"
#include "device/plugin_loader.h"

namespace hs {

Result<Gpus> find_gpus(DeviceChoice choice) {
  Gpus gpus;
  if (choice == DeviceChoice::kCpu) {
    gpus.why_none = "--device cpu";
    return gpus;
  }
  const auto missing = [&](const Error& error) -> Result<Gpus> {
    if (choice == DeviceChoice::kCuda)
      return fail(ErrorKind::kInvalidArgument, "--device cuda: " + error.message,
                  std::string(kNoGpu));
    gpus.why_none = error.message;
    return gpus;
  };
  const auto places = cuda_plugin_places(program_folder());
  const auto plugin = open_cuda_plugin(places, std::string(version()));
  gpus.is_installed = plugin || plugin.error().kind != ErrorKind::kNotFound;
  if (!plugin) return missing(plugin.error());
  auto devices = (*plugin)->list_devices();
  if (!devices) return missing(devices.error());
  gpus.plugin = *plugin;
  gpus.devices = std::move(*devices);
  return gpus;
}

}  // namespace hs
