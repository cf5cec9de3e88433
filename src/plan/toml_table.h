// A TOML file as nested tables of numbers, texts and flags, and lists of tables, read with
// complaints that name file, line and field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace hs {

class TomlTable {
 public:
  // The most bytes such a file may have.
  static constexpr size_t kBytesMax = 4U << 20U;

  // `file` is the name used in messages.
  static Result<TomlTable> parse(std::string_view text, std::string_view file);

  const std::map<std::string, TomlTable, std::less<>>& tables() const { return tables_; }
  const TomlTable* table(std::string_view key) const;
  // The tables of [[key]], in order; empty when there are none.
  const std::vector<TomlTable>& list(std::string_view key) const;
  bool has(std::string_view key) const { return values_.contains(key); }

  // Each gives the field, or the fallback where there is none; no fallback: it must be there.
  // Complaints go to `error` while that is empty.
  double number(std::string_view key, double min, double max, std::optional<double> fallback,
                std::optional<Error>& error) const;
  int64_t integer(std::string_view key, int64_t min, int64_t max, std::optional<int64_t> fallback,
                  std::optional<Error>& error) const;
  bool flag(std::string_view key, bool fallback, std::optional<Error>& error) const;
  std::string text(std::string_view key, std::optional<std::string> fallback,
                   std::optional<Error>& error) const;
  // Complains about the first field or list that none of the calls above has asked for.
  void check_all_read(std::optional<Error>& error) const;
  void complain(std::string_view key, std::string_view message, std::optional<Error>& error) const;

 private:
  friend class TomlTableBuilder;
  struct Value {
    std::variant<bool, int64_t, double, std::string> value;
    uint32_t line = 0;
    mutable bool read = false;
  };
  const Value* find(std::string_view key, bool required, std::optional<Error>& error) const;

  std::string file_;
  std::string path_;  // "" or "cards.rtx4090."
  uint32_t line_ = 0;
  std::map<std::string, TomlTable, std::less<>> tables_;
  std::map<std::string, std::vector<TomlTable>, std::less<>> lists_;
  mutable std::set<std::string, std::less<>> lists_read_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace hs
