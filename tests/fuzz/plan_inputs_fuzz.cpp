// Any bytes as a card list, a list of shapes or a model's config give a value or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plan/cards.h"
#include "plan/model_shape.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)hs::read_catalogue(text, "cards.toml");
  (void)hs::read_model_shapes(text, "models.toml");
  if (const auto shape = hs::read_model_config(text, "config.json")) {
    (void)shape->image_rows({640, 480});
    (void)shape->encode_flops(1024);
    (void)shape->vision_parameters();
  }
  return 0;
}
