// The devices that one test body runs on.
#pragma once

#include <memory>
#include <string_view>

#include "base/check.h"
#include "device/cpu/cpu_device.h"
#include "support/reference_device.h"

namespace hs::test {

// "cpu": the CPU device with two threads; "reference": plain loops.
inline std::unique_ptr<Device> make_backend(std::string_view name) {
  if (name == "reference") return std::make_unique<ReferenceDevice>();
  HS_CHECK(name == "cpu");
  CpuDeviceOptions options;
  options.threads = 2;
  auto device = make_cpu_device(options);
  HS_CHECK(device.has_value());
  return std::move(*device);
}

}  // namespace hs::test
