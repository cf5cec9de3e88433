#include "model/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/json_fields.h"

namespace hs {

namespace {

const nlohmann::json& empty_object() {
  static const nlohmann::json empty = nlohmann::json::object();
  return empty;
}

// An integer field's value when it is a whole number in range; 4096.0 counts as whole.
std::optional<int32_t> whole(const nlohmann::json& value, int32_t min, int32_t max) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= min && number <= max) || number != std::floor(number)) return std::nullopt;
  return static_cast<int32_t>(number);
}

}  // namespace

FieldReader::FieldReader(std::string file, const nlohmann::json& object,
                         std::optional<Error>& error)
    : FieldReader(std::move(file), "", object, error) {}

FieldReader::FieldReader(std::string file, std::string path, const nlohmann::json& object,
                         std::optional<Error>& error)
    : file_(std::move(file)), path_(std::move(path)), object_(&object), error_(&error) {}

const nlohmann::json* FieldReader::find(std::string_view key) const {
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

bool FieldReader::has(std::string_view key) const {
  return find(key) != nullptr;
}

bool FieldReader::is_object(std::string_view key) const {
  const auto* value = find(key);
  return value != nullptr && value->is_object();
}

bool FieldReader::is_number(std::string_view key) const {
  const auto* value = find(key);
  return value != nullptr && value->is_number();
}

bool FieldReader::is_array(std::string_view key) const {
  const auto* value = find(key);
  return value != nullptr && value->is_array();
}

bool FieldReader::is_string(std::string_view key) const {
  const auto* value = find(key);
  return value != nullptr && value->is_string();
}

int32_t FieldReader::integer(std::string_view key, int32_t min, int32_t max,
                             std::optional<int32_t> fallback) {
  const auto* value = find(key);
  if (value == nullptr) {
    if (!fallback) complain(key, "is missing");
    return fallback.value_or(min);
  }
  const auto result = whole(*value, min, max);
  if (!result) complain(key, fmt::format("must be a whole number from {} to {}", min, max));
  return result.value_or(min);
}

double FieldReader::number(std::string_view key, double min, double max,
                           std::optional<double> fallback) {
  const auto* value = find(key);
  if (value == nullptr) {
    if (!fallback) complain(key, "is missing");
    return fallback.value_or(min);
  }
  if (value->is_number()) {
    const double result = value->get<double>();
    if (result >= min && result <= max) return result;
  }
  complain(key, fmt::format("must be a number from {} to {}", min, max));
  return min;
}

bool FieldReader::flag(std::string_view key, bool fallback) {
  const auto* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  complain(key, "must be true or false");
  return fallback;
}

std::string FieldReader::text(std::string_view key, std::optional<std::string> fallback) {
  const auto* value = find(key);
  if (value == nullptr) {
    if (!fallback) complain(key, "is missing");
    return fallback.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  complain(key, "must be a string");
  return fallback.value_or("");
}

std::vector<int32_t> FieldReader::integers(std::string_view key, int32_t min, int32_t max) {
  std::vector<int32_t> result;
  const auto* value = find(key);
  if (value == nullptr) return result;
  const auto take = [&](const nlohmann::json& item) {
    const auto number = whole(item, min, max);
    if (!number) complain(key, fmt::format("must hold whole numbers from {} to {}", min, max));
    result.push_back(number.value_or(min));
  };
  if (value->is_array()) {
    for (const auto& item : *value) take(item);
  } else {
    take(*value);
  }
  return result;
}

std::vector<double> FieldReader::numbers(std::string_view key, size_t count) {
  std::vector<double> result;
  const auto* value = find(key);
  if (value != nullptr && value->is_array() && value->size() == count) {
    for (const auto& item : *value) {
      if (item.is_number() && std::isfinite(item.get<double>()))
        result.push_back(item.get<double>());
    }
  }
  if (result.size() != count) complain(key, fmt::format("must be a list of {} numbers", count));
  result.resize(count);
  return result;
}

FieldReader FieldReader::child(std::string_view key) {
  const auto* value = find(key);
  if (value != nullptr && !value->is_object()) complain(key, "must be an object");
  const bool usable = value != nullptr && value->is_object();
  return {file_, fmt::format("{}{}.", path_, key), usable ? *value : empty_object(), *error_};
}

void FieldReader::complain(std::string_view key, std::string_view message, ErrorKind kind) {
  if (error_->has_value()) return;
  *error_ = Error{kind, fmt::format("{}: {}{} {}", file_, path_, key, message), "", ""};
}

Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view name) {
  auto json = json_parse(text, name);
  if (json && !json->is_object())
    return fail(ErrorKind::kDataLoss, fmt::format("{} does not hold a JSON object", name));
  return json;
}

Result<nlohmann::json> read_json_file(const std::filesystem::path& file) {
  const auto text = read_text_file(file.string(), kConfigBytesMax);
  if (!text) return std::unexpected(text.error());
  return parse_json_object(*text, file.string());
}

}  // namespace hs
