#include "text/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace hs {
namespace {

constexpr int kDepthMax = 200;

std::unexpected<Error> wrong_type(std::string_view where, std::string_view key,
                                  std::string_view expected) {
  return fail(ErrorKind::kDataLoss, fmt::format("{}: \"{}\" must be {}", where, key, expected));
}

// The deepest nesting of arrays and objects. Counted before parsing: a parsed value can be walked
// without fear.
int nesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

const nlohmann::json* json_field(const nlohmann::json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::string> json_string(const nlohmann::json& object, std::string_view key,
                                std::string_view where) {
  const nlohmann::json* field = json_field(object, key);
  if (field == nullptr || !field->is_string()) return wrong_type(where, key, "a string");
  return field->get_ref<const std::string&>();
}

Result<bool> json_bool(const nlohmann::json& object, std::string_view key, bool absent,
                       std::string_view where) {
  const nlohmann::json* field = json_field(object, key);
  if (field == nullptr) return absent;
  if (!field->is_boolean()) return wrong_type(where, key, "true or false");
  return field->get<bool>();
}

Result<int64_t> json_int(const nlohmann::json& object, std::string_view key, int64_t min,
                         int64_t max, std::string_view where) {
  const nlohmann::json* field = json_field(object, key);
  const auto expected = [&] { return fmt::format("an integer from {} to {}", min, max); };
  if (field == nullptr || !field->is_number_integer()) return wrong_type(where, key, expected());
  if (field->is_number_unsigned() && field->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return wrong_type(where, key, expected());
  const auto value = field->get<int64_t>();
  if (value < min || value > max) return wrong_type(where, key, expected());
  return value;
}

Result<nlohmann::json> json_parse(std::string_view text, std::string_view what) {
  if (nesting(text) > kDepthMax)
    return fail(ErrorKind::kDataLoss, fmt::format("{} is nested too deeply", what));
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::kDataLoss, fmt::format("{} is not valid JSON: {}", what, error.what()));
  }
}

Result<std::string> read_text_file(const std::string& path, size_t bytes_max) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status))
    return fail(ErrorKind::kNotFound, fmt::format("{} is not there", path));
  if (!std::filesystem::is_regular_file(status))
    return fail(ErrorKind::kIo, fmt::format("{} is not a regular file", path));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (file == nullptr)
    return fail(ErrorKind::kIo, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::string text;
  std::string chunk(size_t{1} << 20, '\0');
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    text.append(chunk, 0, n);
    if (text.size() > bytes_max)
      return fail(ErrorKind::kTooLarge, fmt::format("{} is over {} bytes", path, bytes_max));
  }
  if (std::ferror(file.get()) != 0)
    return fail(ErrorKind::kIo, fmt::format("cannot read {}", path));
  return text;
}

}  // namespace hs
