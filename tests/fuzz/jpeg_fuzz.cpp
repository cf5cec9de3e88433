// Any bytes read as JPEG give a picture of the size it claims, or an error of a known code.
#include "tests/fuzz/decoder_fuzz.h"

using namespace std::string_view_literals;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hs::test::try_decoder(hs::decode_jpeg, {{0, "\xFF\xD8\xFF"sv}}, {data, size});
}
