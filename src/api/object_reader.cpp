#include "api/object_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace hs {

ObjectReader::ObjectReader(const nlohmann::json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const nlohmann::json* ObjectReader::any(std::string_view name) {
  asked_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> ObjectReader::number(std::string_view name, double min, double max) {
  const nlohmann::json* value = any(name);
  if (value == nullptr) return {};
  if (!value->is_number()) {
    wrong_type(name, "a number");
    return {};
  }
  const double number = value->get<double>();
  if (!(number >= min && number <= max)) {
    fail_field(
        name, fmt::format("'{}' must be from {} to {}, but is {}.", param(name), min, max, number));
    return {};
  }
  return number;
}

std::optional<int64_t> ObjectReader::integer(std::string_view name, int64_t min, int64_t max) {
  const nlohmann::json* value = any(name);
  if (value == nullptr) return {};
  constexpr double kWhole = 9007199254740992.0;  // doubles are exact up to 2^53
  const bool whole = value->is_number_float() && std::abs(value->get<double>()) <= kWhole &&
                     std::trunc(value->get<double>()) == value->get<double>();
  if (!value->is_number_integer() && !whole) {
    wrong_type(name, "a whole number");
    return {};
  }
  const bool too_large =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = too_large ? INT64_MAX : value->get<int64_t>();
  if (too_large || number < min || number > max) {
    fail_field(name, max == INT64_MAX ? fmt::format("'{}' must be a whole number of at least {}.",
                                                    param(name), min)
                                      : fmt::format("'{}' must be a whole number from {} to {}.",
                                                    param(name), min, max));
    return {};
  }
  return number;
}

std::optional<bool> ObjectReader::boolean(std::string_view name) {
  const nlohmann::json* value = any(name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) {
    wrong_type(name, "true or false");
    return {};
  }
  return value->get<bool>();
}

const std::string* ObjectReader::string(std::string_view name) {
  const nlohmann::json* value = any(name);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) {
    wrong_type(name, "a string");
    return nullptr;
  }
  return value->get_ptr<const std::string*>();
}

std::string ObjectReader::param(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : fmt::format("{}.{}", prefix_, name);
}

void ObjectReader::fail_field(std::string_view name, std::string message, ErrorKind kind,
                              std::string code) {
  fail_with({kind, std::move(message), std::move(code), param(name)});
}

void ObjectReader::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
}

Status ObjectReader::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

std::vector<std::string> ObjectReader::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!asked_.contains(name)) names.push_back(name);
  return names;
}

void ObjectReader::wrong_type(std::string_view name, std::string_view wanted) {
  fail_field(name, fmt::format("'{}' must be {}.", param(name), wanted),
             ErrorKind::kInvalidArgument, "invalid_type");
}

}  // namespace hs
