#include "api/query_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/json_writer.h"
#include "api/request_checks.h"

namespace hs {

QueryReader::QueryReader(std::string_view query) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    std::string written(pair.substr(std::min(equals + 1, pair.size())));
    std::ranges::replace(written, '+', ' ');  // as HTML forms write spaces
    const auto name = percent_decoded(pair.substr(0, equals));
    const auto value = percent_decoded(written);
    if (!name || !value) {
      fail_field("", "The query holds a broken percent escape.");
      return;
    }
    if (!fields_.emplace(*name, *value).second)
      fail_field(*name, fmt::format("'{}' is given twice.", *name));
  }
}

void QueryReader::fail_field(std::string_view name, const std::string& message) {
  if (!status_) return;
  status_ = std::unexpected(Error{ErrorKind::kInvalidArgument, to_valid_utf8(message),
                                  "invalid_value", to_valid_utf8(name)});
}

std::string QueryReader::text(std::string_view name, std::string otherwise) {
  asked_[std::string(name)] = true;
  const auto field = fields_.find(name);
  return field == fields_.end() || field->second.empty() ? std::move(otherwise) : field->second;
}

int64_t QueryReader::integer(std::string_view name, int64_t otherwise, int64_t min, int64_t max) {
  const std::string written = text(name);
  if (written.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error == std::errc() && end == written.data() + written.size() && value >= min &&
      value <= max)
    return value;
  fail_field(name, fmt::format("'{}' must be a whole number from {} to {}.", name, min, max));
  return otherwise;
}

Status QueryReader::status() const {
  if (!status_) return status_;
  for (const auto& [name, value] : fields_)
    if (!asked_.contains(name))
      return std::unexpected(Error{ErrorKind::kInvalidArgument,
                                   fmt::format("'{}' is not known here.", to_valid_utf8(name)),
                                   "unknown_parameter", to_valid_utf8(name)});
  return {};
}

}  // namespace hs
