#include "plan/toml_table.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>

namespace hs {

class TomlTableBuilder {
 public:
  TomlTableBuilder(std::string_view file, std::optional<Error>& error)
      : file_(file), error_(error) {}

  // Depth is bounded by the parser.
  TomlTable build(const toml::table& from, const std::string& path) {
    TomlTable result;
    result.file_ = file_;
    result.path_ = path;
    result.line_ = from.source().begin.line;
    for (const auto& [name, node] : from) {
      const std::string key(name.str());
      if (const toml::table* inner = node.as_table()) {
        result.tables_.emplace(key, build(*inner, path + key + "."));
        continue;
      }
      const toml::array* list = node.as_array();
      if (list != nullptr && !list->empty() && list->is_homogeneous<toml::table>()) {
        auto& tables = result.lists_[key];
        for (size_t i = 0; i < list->size(); ++i) {
          tables.push_back(
              build(*list->get(i)->as_table(), fmt::format("{}{}[{}].", path, key, i)));
        }
        continue;
      }
      TomlTable::Value value{.value = false, .line = node.source().begin.line};
      if (const auto text = node.value_exact<std::string>()) {
        value.value = *text;
      } else if (const auto whole = node.value_exact<int64_t>()) {
        value.value = *whole;
      } else if (const auto number = node.value_exact<double>()) {
        value.value = *number;
      } else if (const auto flag = node.value_exact<bool>()) {
        value.value = *flag;
      } else if (!error_) {
        error_ = Error{ErrorKind::kInvalidArgument,
                       fmt::format("{}:{}: {}{} must be a text, number or true or false", file_,
                                   value.line, path, key),
                       "", path + key};
      }
      result.values_.emplace(key, std::move(value));
    }
    return result;
  }

 private:
  std::string file_;
  std::optional<Error>& error_;
};

Result<TomlTable> TomlTable::parse(std::string_view text, std::string_view file) {
  if (text.size() > kBytesMax) {
    return fail(ErrorKind::kTooLarge, fmt::format("{} has more than {} bytes", file, kBytesMax));
  }
  try {
    const toml::table parsed = toml::parse(text);
    std::optional<Error> error;
    TomlTable table = TomlTableBuilder(file, error).build(parsed, "");
    if (error) return std::unexpected(*error);
    return table;
  } catch (const toml::parse_error& error) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("{}:{}: {}", file, error.source().begin.line,
                            std::string(error.description())));
  }
}

const TomlTable* TomlTable::table(std::string_view key) const {
  const auto it = tables_.find(key);
  return it == tables_.end() ? nullptr : &it->second;
}

const std::vector<TomlTable>& TomlTable::list(std::string_view key) const {
  static const std::vector<TomlTable> kNone;
  const auto it = lists_.find(key);
  if (it == lists_.end()) return kNone;
  lists_read_.emplace(key);
  return it->second;
}

void TomlTable::complain(std::string_view key, std::string_view message,
                         std::optional<Error>& error) const {
  if (error) return;
  const auto it = values_.find(key);
  const uint32_t line = it == values_.end() ? line_ : it->second.line;
  error = Error{ErrorKind::kInvalidArgument,
                fmt::format("{}:{}: {}{} {}", file_, line, path_, key, message), "",
                fmt::format("{}{}", path_, key)};
}

const TomlTable::Value* TomlTable::find(std::string_view key, bool required,
                                        std::optional<Error>& error) const {
  const auto it = values_.find(key);
  if (it != values_.end()) {
    it->second.read = true;
    return &it->second;
  }
  if (required) complain(key, "is missing", error);
  return nullptr;
}

double TomlTable::number(std::string_view key, double min, double max,
                         std::optional<double> fallback, std::optional<Error>& error) const {
  const Value* found = find(key, !fallback, error);
  if (found == nullptr) return fallback.value_or(min);
  double number = std::nan("");
  if (const auto* value = std::get_if<double>(&found->value)) number = *value;
  if (const auto* whole = std::get_if<int64_t>(&found->value)) {
    number = static_cast<double>(*whole);
  }
  if (number >= min && number <= max) return number;
  complain(key, fmt::format("must be a number from {} to {}", min, max), error);
  return fallback.value_or(min);
}

int64_t TomlTable::integer(std::string_view key, int64_t min, int64_t max,
                           std::optional<int64_t> fallback, std::optional<Error>& error) const {
  const Value* found = find(key, !fallback, error);
  if (found == nullptr) return fallback.value_or(min);
  const auto* whole = std::get_if<int64_t>(&found->value);
  if (whole != nullptr && *whole >= min && *whole <= max) return *whole;
  complain(key, fmt::format("must be a whole number from {} to {}", min, max), error);
  return fallback.value_or(min);
}

bool TomlTable::flag(std::string_view key, bool fallback, std::optional<Error>& error) const {
  const Value* found = find(key, false, error);
  if (found == nullptr) return fallback;
  if (const auto* flag = std::get_if<bool>(&found->value)) return *flag;
  complain(key, "must be true or false", error);
  return fallback;
}

std::string TomlTable::text(std::string_view key, std::optional<std::string> fallback,
                            std::optional<Error>& error) const {
  const Value* found = find(key, !fallback, error);
  if (found == nullptr) return fallback.value_or("");
  if (const auto* text = std::get_if<std::string>(&found->value)) return *text;
  complain(key, "must be a text", error);
  return fallback.value_or("");
}

void TomlTable::check_all_read(std::optional<Error>& error) const {
  for (const auto& [key, value] : values_) {
    if (!value.read) complain(key, "is not known here", error);
  }
  for (const auto& [key, list] : lists_) {
    if (!lists_read_.contains(key)) complain(key, "is not known here", error);
  }
}

}  // namespace hs
