// What plan and simulate print: tables whose every number says where it comes from, as text for
// people or as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/cards.h"

namespace hs {

class Report {
 public:
  struct Column {
    std::string key;    // "post_mib", in JSON
    std::string title;  // "post-projector"
    std::string unit;   // "MiB"; "" for words and plain counts
    // Of the column's numbers; none for words and for what the user said.
    std::optional<Origin> origin;
    int decimals = 2;
  };
  struct Cell {
    Cell(std::string_view words) : text(words) {}    // NOLINT(google-explicit-constructor)
    Cell(const char* words) : text(words) {}         // NOLINT(google-explicit-constructor)
    Cell(const std::string& words) : text(words) {}  // NOLINT(google-explicit-constructor)
    Cell(double value) : number(value) {}            // NOLINT(google-explicit-constructor)
    Cell(int64_t value)
        : number(static_cast<double>(value)) {}  // NOLINT(google-explicit-constructor)
    Cell(int32_t value) : number(value) {}       // NOLINT(google-explicit-constructor)

    std::string text;
    std::optional<double> number;  // not finite: nothing to say, "-" or null
  };
  class Table {
   public:
    void add(std::vector<Cell> row);  // one a column
    void note(std::string text) { notes_.push_back(std::move(text)); }

   private:
    friend class Report;
    std::string key_;
    std::string title_;
    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
    std::vector<std::string> notes_;
  };

  explicit Report(std::string command) : command_(std::move(command)) {}
  // Valid until the next table.
  Table& table(std::string key, std::string title, std::vector<Column> columns);
  void note(std::string text) { notes_.push_back(std::move(text)); }

  std::string text() const;
  std::string json() const;  // one object, one line

 private:
  std::string command_;
  std::vector<Table> tables_;
  std::vector<std::string> notes_;
};

}  // namespace hs
