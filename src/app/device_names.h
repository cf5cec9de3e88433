// The ways in which people name a device.
#pragma once

#include <string_view>

#include "base/status.h"
#include "device/device_info.h"

namespace hs {

struct DeviceInventory;

// One entry of --consumer or --datacenter (device_roles.h lists the forms). The error says what is
// wrong with it, without naming the flag: kNotFound, or kInvalidArgument where several devices fit.
Result<DeviceId> find_device(std::string_view entry, const DeviceInventory& inventory);

}  // namespace hs
