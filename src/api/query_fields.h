// The fields of a URL's query: "since_ms=5&model=a%2Fb".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hs {

// Reads fields by name; like ObjectReader it keeps the first error, so that a caller asks status()
// once. A field that is there twice, or that nobody asked for, is an error.
class QueryReader {
 public:
  explicit QueryReader(std::string_view query);

  // `otherwise` where the field is absent or empty.
  std::string text(std::string_view name, std::string otherwise = "");
  int64_t integer(std::string_view name, int64_t otherwise, int64_t min, int64_t max);
  // kInvalidArgument with the field as param.
  Status status() const;

 private:
  void fail_field(std::string_view name, const std::string& message);

  std::map<std::string, std::string, std::less<>> fields_;
  std::map<std::string, bool, std::less<>> asked_;
  Status status_;
};

}  // namespace hs
