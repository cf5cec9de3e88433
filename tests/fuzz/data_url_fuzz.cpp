// Any text decodes to at most the allowed bytes, or gives an error with a code.
#include <cstdlib>

#include "media/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytesMax = 64;
  const auto bytes = hs::decode_data_url({reinterpret_cast<const char*>(data), size}, kBytesMax);
  if (bytes ? bytes->size() > kBytesMax : bytes.error().code.empty()) std::abort();
  return 0;
}
