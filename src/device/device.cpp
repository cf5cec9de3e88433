#include "device/device.h"

#include <fmt/format.h>

namespace hs {

std::string to_string(DeviceId id) {
  return fmt::format("{}:{}", id.kind == DeviceId::Kind::kCpu ? "cpu" : "cuda", id.index);
}

}  // namespace hs
