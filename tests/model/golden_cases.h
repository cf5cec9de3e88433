// The reference cases of tests/golden: messages and pictures, and what Hugging Face transformers
// makes of them (see tests/golden/make_goldens.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"
#include "text/chat_template.h"

namespace hs::test {

struct GoldenCase {
  std::string name;
  ChatInput chat;
  std::vector<std::filesystem::path> image_files;
  std::vector<int32_t> input_ids;
  std::vector<int32_t> greedy;        // tokens that pass over end tokens
  std::vector<double> greedy_leads;   // of each on the second-best
  std::vector<int32_t> position_ids;  // (n axes, prompt); empty where positions are plain
  // Only of some cases: (n images, 3, side, side), or patch rows (patches, 3 x frames x side x
  // side)
  std::vector<float> pixel_values;
  std::vector<int64_t> pixel_shape;
  std::vector<float> image_embeds;  // (image tokens, dim); empty without pictures
  std::vector<float> logits;        // (vocab rows) at the last prompt position
};

// The float32 tensor NAME of a file, or empty when it has none.
std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name);
std::vector<int32_t> read_int32s(const SafetensorsFile& file, const std::string& name);
std::vector<std::byte> read_file(const std::filesystem::path& path);

// Reads DIR/goldens.json and DIR/goldens.safetensors; pictures are in DIR/../cases. Aborts on
// damage.
std::vector<GoldenCase> load_golden_cases(const std::filesystem::path& dir);

// models/demo/NAME and tests/golden/NAME
std::filesystem::path demo_model_dir(std::string_view name = "llava");
std::filesystem::path golden_dir(std::string_view name = "llava");

}  // namespace hs::test
