#include "api/json_parser.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hs {
namespace {

using nlohmann::json;

// Builds the value from the parser's events, and stops the parser at a limit. (The library's own
// builder has no limits.)
class LimitedBuilder final : public json::json_sax_t {
 public:
  explicit LimitedBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(json::number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(json::number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(json::number_float_t value, const std::string&) override {
    return add(value) != nullptr;
  }
  bool string(std::string& value) override { return add(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(json::object()); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    error_ = fmt::format("The body is not valid JSON in UTF-8: error at byte {}.", position);
    return false;
  }

  json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  json* add(json value) {
    if (++n_values_ > limits_.values_max) {
      error_ = fmt::format("The body has more than {} JSON values.", limits_.values_max);
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool open(json value) {
    if (open_.size() >= limits_.depth_max) {
      error_ = fmt::format("The body nests more than {} levels of JSON.", limits_.depth_max);
      return false;
    }
    json* place = add(std::move(value));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  json root_;
  std::vector<json*> open_;  // arrays and objects being filled; a parent does not grow meanwhile
  std::string key_;
  size_t n_values_ = 0;
  std::string error_;
};

}  // namespace

Result<json> parse_json(std::string_view text, const JsonLimits& limits) {
  LimitedBuilder builder(limits);
  if (!json::sax_parse(text.begin(), text.end(), &builder))
    return fail(ErrorKind::kInvalidArgument, builder.error(), "invalid_json");
  return builder.take();
}

}  // namespace hs
