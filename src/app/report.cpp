#include "app/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "api/json_writer.h"
#include "base/check.h"

namespace hs {
namespace {

// 12345.6 with one decimal -> "12,345.6"
std::string grouped(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  const size_t sign = text.starts_with('-') ? 1 : 0;
  size_t end = text.find('.');
  if (end == std::string::npos) end = text.size();
  for (size_t at = end; at > sign + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string shown(const Report::Cell& cell, const Report::Column& column) {
  if (!cell.number) return cell.text;
  return std::isfinite(*cell.number) ? grouped(*cell.number, column.decimals) : "-";
}

// Second line of a column's title.
std::string label(const Report::Column& column) {
  std::string text = column.unit;
  if (column.origin) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(*column.origin));
  }
  return text;
}

void append_text(std::string& out, std::string_view key, std::string_view value) {
  append_json_string(out, key);
  out += ':';
  append_json_string(out, value);
}

void append_list(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, texts[i]);
  }
  out += ']';
}

void append_cell(std::string& out, const Report::Cell& cell, const Report::Column& column) {
  append_json_string(out, column.key);
  out += ':';
  if (!cell.number) {
    append_json_string(out, cell.text);
    return;
  }
  const std::string number =
      std::isfinite(*cell.number) ? fmt::format("{:.10g}", *cell.number) : "null";
  fmt::format_to(std::back_inserter(out), R"({{"value":{})", number);
  if (!column.unit.empty()) {
    out += ',';
    append_text(out, "unit", column.unit);
  }
  if (column.origin) {
    out += ',';
    append_text(out, "kind", to_string(*column.origin));
  }
  out += '}';
}

}  // namespace

void Report::Table::add(std::vector<Cell> row) {
  HS_CHECK_EQ(row.size(), columns_.size());
  rows_.push_back(std::move(row));
}

Report::Table& Report::table(std::string key, std::string title, std::vector<Column> columns) {
  Table& table = tables_.emplace_back();
  table.key_ = std::move(key);
  table.title_ = std::move(title);
  table.columns_ = std::move(columns);
  return table;
}

std::string Report::text() const {
  std::string out;
  for (const Table& table : tables_) {
    out += fmt::format("{}{}\n\n", out.empty() ? "" : "\n", table.title_);
    std::vector<std::vector<std::string>> lines(2);
    for (const Column& column : table.columns_) {
      lines[0].push_back(column.title);
      lines[1].push_back(label(column));
    }
    for (const auto& row : table.rows_) {
      auto& line = lines.emplace_back();
      for (size_t i = 0; i < row.size(); ++i) line.push_back(shown(row[i], table.columns_[i]));
    }
    std::vector<size_t> widths(table.columns_.size(), 0);
    for (const auto& line : lines) {
      for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    for (const auto& line : lines) {
      std::string text;
      for (size_t i = 0; i < line.size(); ++i) {
        const bool words = table.rows_.empty() || !table.rows_.front()[i].number;
        text += words ? fmt::format("{}{:<{}}", i > 0 ? "  " : "", line[i], widths[i])
                      : fmt::format("{}{:>{}}", i > 0 ? "  " : "", line[i], widths[i]);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + "\n";
    }
    for (const std::string& note : table.notes_) out += fmt::format("  {}\n", note);
  }
  for (const std::string& note : notes_) out += fmt::format("\n{}\n", note);
  return out;
}

std::string Report::json() const {
  std::string out = "{";
  append_text(out, "command", command_);
  out += R"(,"tables":[)";
  for (const Table& table : tables_) {
    if (&table != &tables_.front()) out += ',';
    out += '{';
    append_text(out, "name", table.key_);
    out += ',';
    append_text(out, "title", table.title_);
    out += R"(,"rows":[)";
    for (const auto& row : table.rows_) {
      out += &row == &table.rows_.front() ? "{" : ",{";
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) out += ',';
        append_cell(out, row[i], table.columns_[i]);
      }
      out += '}';
    }
    out += R"(],"notes":)";
    append_list(out, table.notes_);
    out += '}';
  }
  out += R"(],"notes":)";
  append_list(out, notes_);
  return out + "}\n";
}

}  // namespace hs
