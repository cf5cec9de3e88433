// Hostile bytes as a whole safetensors file: parsing never reads outside them, and what it accepts
// lies inside.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = hs::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  if (!tensors) return 0;
  for (const auto& tensor : *tensors) {
    HS_CHECK_LE(tensor.begin, tensor.end);
    HS_CHECK_LE(tensor.end, size);
  }
  return 0;
}
