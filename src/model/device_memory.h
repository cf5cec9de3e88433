// Work areas of models on a device: allocated once at load, seen as matrices of whatever shape a
// step needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"

namespace hs {

// Activations of up to `elements` numbers; contents do not outlive the step that wrote them.
class Scratch {
 public:
  Scratch() = default;
  static Result<Scratch> allocate(Device& device, int64_t elements, DType dtype);
  // The matrix that begins at element `first`. REQUIRES: first + rows * cols fits.
  Matrix view(int64_t rows, int64_t cols, int64_t first = 0);

 private:
  Buffer buffer_;
  DType dtype_ = DType::kF32;
  int64_t elements_ = 0;
};

// Host numbers to activations. `staging` is host memory for rounding, empty where activations are
// float32.
void upload_activations(Device& device, std::span<const float> values, Matrix to,
                        std::vector<uint16_t>& staging);

}  // namespace hs
