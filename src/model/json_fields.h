// Reading typed fields of a checkpoint's JSON files, with errors that name file and field.
//
// A reader keeps the first complaint and goes on with defaults, so that a struct is filled line by
// line and the caller asks once, at the end, whether all of it was right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// The most bytes a configuration file may have; real ones have a few thousand.
constexpr size_t kConfigBytesMax = 16U << 20U;

class FieldReader {
 public:
  // Complaints of this reader and its children go to `error` when it is still empty. `object` and
  // `error` must outlive the reader. `file` is the name used in messages.
  FieldReader(std::string file, const nlohmann::json& object, std::optional<Error>& error);

  // Present and not null.
  bool has(std::string_view key) const;
  bool is_object(std::string_view key) const;
  bool is_number(std::string_view key) const;
  bool is_array(std::string_view key) const;
  bool is_string(std::string_view key) const;

  // Each gives the field, or the fallback when it is absent; without a fallback an absent field is
  // a complaint.
  int32_t integer(std::string_view key, int32_t min, int32_t max,
                  std::optional<int32_t> fallback = {});
  double number(std::string_view key, double min, double max, std::optional<double> fallback = {});
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::optional<std::string> fallback = {});
  std::vector<int32_t> integers(std::string_view key, int32_t min, int32_t max);
  std::vector<double> numbers(std::string_view key, size_t count);
  // The object under key, or an empty one (with a complaint when the field is something else).
  FieldReader child(std::string_view key);

  // Records a complaint about a field: "FILE: FIELD MESSAGE".
  void complain(std::string_view key, std::string_view message,
                ErrorKind kind = ErrorKind::kDataLoss);
  bool failed() const { return error_->has_value(); }

 private:
  FieldReader(std::string file, std::string path, const nlohmann::json& object,
              std::optional<Error>& error);
  const nlohmann::json* find(std::string_view key) const;

  std::string file_;
  std::string path_;  // "" or "text_config."
  const nlohmann::json* object_;
  std::optional<Error>* error_;
};

// Reads and parses FILE of a checkpoint; it must hold one JSON object. kNotFound when there is no
// such file.
Result<nlohmann::json> read_json_file(const std::filesystem::path& file);
// The same for text that is already in memory; `name` is used in messages.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view name);

}  // namespace hs
