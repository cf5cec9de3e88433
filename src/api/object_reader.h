// Reads the typed fields of one JSON object; each complaint names its field.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hs {

// The first error is kept and later reads go on, so that a request reads as a plain list of fields
// and the caller asks status() once. A field that is null counts as absent.
class ObjectReader {
 public:
  // `prefix`: the object's own place, e.g. "messages[0]"; "" for the body. REQUIRES: is_object().
  ObjectReader(const nlohmann::json& object, std::string prefix);

  const nlohmann::json* any(std::string_view name);  // null if absent
  std::optional<double> number(std::string_view name, double min, double max);
  // Whole numbers, also spelled 5.0; nothing else is rounded.
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max);
  std::optional<bool> boolean(std::string_view name);
  const std::string* string(std::string_view name);  // null if absent

  // The name with the object's place before it: "messages[0].role".
  std::string param(std::string_view name) const;
  void fail_field(std::string_view name, std::string message,
                  ErrorKind kind = ErrorKind::kInvalidArgument, std::string code = "invalid_value");
  void fail_with(Error error);
  bool failed() const { return error_.has_value(); }
  Status status() const;

  // Fields of the object that nobody has asked for.
  std::vector<std::string> unknown() const;

 private:
  void wrong_type(std::string_view name, std::string_view wanted);

  const nlohmann::json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> asked_;
  std::optional<Error> error_;
};

}  // namespace hs
