#include "model/device_memory.h"

#include <utility>

#include "base/check.h"
#include "model/weights.h"

namespace hs {

Result<Scratch> Scratch::allocate(Device& device, int64_t elements, DType dtype) {
  auto buffer = device.allocate(static_cast<size_t>(elements) * dtype_bytes(dtype));
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  Scratch scratch;
  scratch.buffer_ = std::move(*buffer);
  scratch.dtype_ = dtype;
  scratch.elements_ = elements;
  return scratch;
}

Matrix Scratch::view(int64_t rows, int64_t cols, int64_t first) {
  HS_CHECK_LE(first + rows * cols, elements_);
  std::byte* data = buffer_.as<std::byte>() + static_cast<size_t>(first) * dtype_bytes(dtype_);
  return {data, dtype_, rows, cols, cols};
}

void upload_activations(Device& device, std::span<const float> values, Matrix to,
                        std::vector<uint16_t>& staging) {
  HS_CHECK_EQ(to.stride, to.cols);
  HS_CHECK_EQ(static_cast<int64_t>(values.size()), to.rows * to.cols);
  if (to.dtype == DType::kF32) {
    device.upload(values.data(), to.data, values.size_bytes());
    return;
  }
  const auto round = rounding_to(to.dtype);
  staging.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) staging[i] = round(values[i]);
  device.upload(staging.data(), to.data, 2 * values.size());
}

}  // namespace hs
