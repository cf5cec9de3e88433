// GPUs of an emulated machine as Devices, for tests of the CUDA backend.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cuda_emu/fake_runtime.h"
#include "device/cuda/cuda_device.h"
#include "support/results.h"

namespace hs::test {

inline std::unique_ptr<Device> make_gpu(int index = 0, bool graphs = true,
                                        DType dtype = DType::kBF16) {
  auto device = cuda::make_cuda_device({.index = index, .dtype = dtype, .graphs = graphs});
  BOOST_REQUIRE_MESSAGE(device.has_value(), message_of(device));
  return std::move(*device);
}

// Nothing was done wrong and everything was given back. Devices are gone.
inline void check_clean(const cuda_emu::FakeMachine& machine) {
  for (const std::string& report : machine.reports()) BOOST_ERROR(report);
  for (const std::string& leak : machine.leaks()) BOOST_ERROR("leaked: " + leak);
}

inline Buffer must_allocate(Device& device, size_t bytes) {
  auto buffer = device.allocate(bytes);
  BOOST_REQUIRE_MESSAGE(buffer.has_value(), message_of(buffer));
  return std::move(*buffer);
}

template <typename T>
std::vector<T> download(Device& device, const void* from, size_t n) {
  std::vector<T> values(n);
  device.download(from, values.data(), n * sizeof(T));
  const Status done = device.sync();
  BOOST_REQUIRE_MESSAGE(done.has_value(), message_of(done));
  return values;
}

}  // namespace hs::test
