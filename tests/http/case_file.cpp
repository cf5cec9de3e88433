#include "case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace hs::test {
namespace {

[[noreturn]] void malformed(const WireCase& wire_case, std::string_view why) {
  throw std::runtime_error(fmt::format("{}: '{}': {}", wire_case.file, wire_case.name, why));
}

// \r \n \t \\ \xHH, {text*count}.
std::string unescape(const WireCase& wire_case, std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '{') {
      size_t end = i, depth = 0;
      for (; end < line.size(); ++end) {
        if (line[end] == '{') ++depth;
        if (line[end] == '}' && --depth == 0) break;
      }
      const size_t star = line.rfind('*', end);
      if (end == line.size() || star == line.npos || star < i)
        malformed(wire_case, "a bad repetition");
      const std::string part = unescape(wire_case, line.substr(i + 1, star - i - 1));
      const int count = std::stoi(std::string(line.substr(star + 1, end - star - 1)));
      for (int n = 0; n < count; ++n) out += part;
      i = end;
    } else if (line[i] != '\\') {
      out += line[i];
    } else if (++i >= line.size()) {
      malformed(wire_case, "a lone backslash");
    } else if (line[i] == 'x') {
      out += static_cast<char>(std::stoi(std::string(line.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      static constexpr std::string_view kNames = "rnt\\{", kBytes = "\r\n\t\\{";
      const size_t at = kNames.find(line[i]);
      if (at == kNames.npos) malformed(wire_case, "an unknown escape");
      out += kBytes[at];
    }
  }
  return out;
}

// Lines become bytes: each ends with CR LF, unless its last character is a lone backslash.
std::string wire_bytes(const WireCase& wire_case, const std::vector<std::string>& lines) {
  std::string out;
  for (std::string_view line : lines) {
    const bool joined = line.ends_with('\\') && !line.ends_with("\\\\");
    if (joined) line.remove_suffix(1);
    out += unescape(wire_case, line);
    if (!joined) out += "\r\n";
  }
  return out;
}

void take_limits(WireCase& wire_case, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const size_t equals = line.find(" = ");
    if (equals == line.npos) malformed(wire_case, "a limit is written 'name = number'");
    wire_case.limits[line.substr(0, equals)] = std::stoll(line.substr(equals + 3));
  }
}

void take_block(WireCase& wire_case, std::string_view kind, std::vector<std::string> lines) {
  if (kind == "limits") return take_limits(wire_case, lines);
  if (kind == "send") {
    wire_case.steps.push_back({.send = wire_bytes(wire_case, lines), .expect = {}});
  } else if (kind == "events") {
    wire_case.checks_events = true;
    for (const std::string& line : lines) wire_case.events += line + "\n";
  } else if (kind == "expect") {
    if (wire_case.steps.empty()) malformed(wire_case, "expect before send");
    if (!lines.empty() && (lines.back() == "<closed>" || lines.back() == "<open>")) {
      wire_case.closed = lines.back() == "<closed>";
      lines.pop_back();
    }
    wire_case.steps.back().expect = wire_bytes(wire_case, lines);
  } else {
    malformed(wire_case, fmt::format("an unknown block '{}'", kind));
  }
}

void read_file(const std::filesystem::path& path, std::vector<WireCase>& cases) {
  std::ifstream file(path);
  std::string line, kind;
  std::vector<std::string> block;
  bool in_block = false;
  while (std::getline(file, line)) {
    if (line.starts_with("```")) {
      if (in_block && !cases.empty()) take_block(cases.back(), kind, std::exchange(block, {}));
      in_block = !in_block;
      kind = line.substr(3);
    } else if (in_block) {
      block.push_back(line);
    } else if (line.starts_with("## ")) {
      cases.push_back({.file = path.filename(),
                       .name = line.substr(3),
                       .limits = {},
                       .steps = {},
                       .events = {}});
    }
  }
  if (in_block) throw std::runtime_error(path.string() + ": a block has no end");
}

}  // namespace

std::vector<WireCase> read_wire_cases(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".md" && entry.path().filename() != "README.md")
      paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<WireCase> cases;
  for (const auto& path : paths) read_file(path, cases);
  for (const WireCase& each : cases)
    if (each.steps.empty()) malformed(each, "nothing is sent");
  return cases;
}

}  // namespace hs::test
