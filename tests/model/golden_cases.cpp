#include "golden_cases.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace hs::test {

namespace {

ChatInput read_chat(const nlohmann::json& messages) {
  ChatInput chat;
  for (const auto& message : messages) {
    ChatMessage& out = chat.messages.emplace_back();
    out.role = message.at("role");
    for (const auto& part : message.at("content")) {
      const bool is_image = part.at("type") == "image";
      out.parts.push_back(
          {is_image ? ChatPart::Kind::kImage : ChatPart::Kind::kText, part.value("text", "")});
    }
  }
  return chat;
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  HS_CHECK(stream.good());
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name) {
  for (const auto& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    HS_CHECK(tensor.dtype == DType::kF32);
    std::vector<float> values(tensor.bytes() / sizeof(float));
    std::memcpy(values.data(), file.data(tensor).data(), tensor.bytes());
    return values;
  }
  return {};
}

std::vector<GoldenCase> load_golden_cases(const std::filesystem::path& dir) {
  std::ifstream stream(dir / "goldens.json");
  HS_CHECK(stream.good());
  const auto json = nlohmann::json::parse(stream);
  const auto tensors = SafetensorsFile::open(dir / "goldens.safetensors");
  HS_CHECK(tensors.has_value());
  std::vector<GoldenCase> cases;
  for (const auto& item : json.at("cases")) {
    GoldenCase& golden = cases.emplace_back();
    golden.name = item.at("name");
    golden.chat = read_chat(item.at("messages"));
    for (const auto& image : item.at("images")) {
      golden.image_files.push_back(dir.parent_path() / "cases" / image.get<std::string>());
    }
    golden.input_ids = item.at("input_ids").get<std::vector<int32_t>>();
    golden.greedy = item.at("greedy_ignoring_end").get<std::vector<int32_t>>();
    golden.greedy_leads = item.at("greedy_leads").get<std::vector<double>>();
    golden.pixel_values = read_floats(*tensors, golden.name + ".pixel_values");
    golden.image_embeds = read_floats(*tensors, golden.name + ".image_embeds");
    golden.logits = read_floats(*tensors, golden.name + ".logits");
  }
  return cases;
}

std::filesystem::path demo_model_dir() {
  return std::filesystem::path(HS_SOURCE_DIR) / "models" / "demo" / "llava";
}

std::filesystem::path golden_dir() {
  return std::filesystem::path(HS_SOURCE_DIR) / "tests" / "golden" / "llava";
}

}  // namespace hs::test
