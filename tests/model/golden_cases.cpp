#include "golden_cases.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "support/source_dir.h"

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

const TensorInfo* find_tensor(const SafetensorsFile& file, const std::string& name) {
  for (const auto& tensor : file.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const TensorInfo& tensor) {
  std::vector<T> values(tensor.bytes() / sizeof(T));
  std::memcpy(values.data(), file.data(tensor).data(), tensor.bytes());
  return values;
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
  const TensorInfo* tensor = find_tensor(file, name);
  if (tensor == nullptr) return {};
  HS_CHECK(tensor->dtype == DType::kF32);
  return values_of<float>(file, *tensor);
}

std::vector<int32_t> read_int32s(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = find_tensor(file, name);
  if (tensor == nullptr) return {};
  HS_CHECK(tensor->dtype_text == "I32");
  return values_of<int32_t>(file, *tensor);
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
    golden.position_ids = read_int32s(*tensors, golden.name + ".position_ids");
    golden.pixel_values = read_floats(*tensors, golden.name + ".pixel_values");
    const TensorInfo* pixels = find_tensor(*tensors, golden.name + ".pixel_values");
    if (pixels != nullptr) golden.pixel_shape = pixels->shape;
    golden.image_embeds = read_floats(*tensors, golden.name + ".image_embeds");
    golden.logits = read_floats(*tensors, golden.name + ".logits");
  }
  return cases;
}

std::filesystem::path demo_model_dir(std::string_view name) {
  return std::filesystem::path(source_dir()) / "models" / "demo" / name;
}

std::filesystem::path golden_dir(std::string_view name) {
  return std::filesystem::path(source_dir()) / "tests" / "golden" / name;
}

}  // namespace hs::test
