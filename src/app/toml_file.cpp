#include "app/toml_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <fstream>
#include <iterator>
#include <optional>

namespace hs {
namespace {

std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<int64_t>()) return fmt::format("{}", *number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  return {};
}

std::optional<std::string> list_text(const toml::array& list) {
  std::string out;
  for (const toml::node& item : list) {
    const auto text = scalar_text(item);
    if (!text) return {};
    if (!out.empty()) out += ',';
    out += *text;
  }
  return out;
}

Status flatten(const toml::table& table, const std::string& prefix, const std::string& file,
               std::map<std::string, std::string>& out) {
  for (const auto& [name, node] : table) {
    const std::string key =
        prefix.empty() ? std::string(name.str()) : prefix + "." + std::string(name.str());
    if (const toml::table* inner = node.as_table()) {
      if (const Status status = flatten(*inner, key, file, out); !status) return status;
      continue;
    }
    const auto text = node.is_array() ? list_text(*node.as_array()) : scalar_text(node);
    if (!text)
      return fail(ErrorKind::kInvalidArgument,
                  fmt::format("{}:{}: '{}' must be a string, number, boolean or a list of them",
                              file, node.source().begin.line, key));
    out[key] = *text;
  }
  return {};
}

}  // namespace

Result<std::map<std::string, std::string>> read_toml_settings(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return fail(ErrorKind::kIo, fmt::format("cannot read {}", path.string()));
  std::map<std::string, std::string> out;
  try {
    const toml::table table = toml::parse(text);
    if (const Status status = flatten(table, "", path.string(), out); !status)
      return std::unexpected(status.error());
  } catch (const toml::parse_error& error) {
    return fail(ErrorKind::kInvalidArgument,
                fmt::format("{}:{}: {}", path.string(), error.source().begin.line,
                            std::string(error.description())));
  }
  return out;
}

}  // namespace hs
