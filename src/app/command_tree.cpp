#include "app/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

namespace hs {
namespace {

// CLI11 writes a choice into the type: "TEXT:{show,check}".
std::vector<std::string> choices_of(const std::string& type) {
  const size_t open = type.find('{');
  if (open == std::string::npos || !type.ends_with('}')) return {};
  std::vector<std::string> choices;
  std::string_view rest = std::string_view(type).substr(open + 1, type.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    choices.emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return choices;
}

OptionInfo option_info(const CLI::Option& option) {
  OptionInfo info;
  info.description = option.get_description();
  info.required = option.get_required();
  info.positional = option.get_positional();
  if (info.positional) {
    info.names = {option.get_name(true, false)};
  } else {
    for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  }
  if (option.get_items_expected_max() == 0) return info;
  const std::string type = option.get_type_name();
  info.choices = choices_of(type);
  // A check's own words ("UINT:POSITIVE") are for the help.
  info.value_name = info.choices.empty() ? type.substr(0, type.find(':')) : "WORD";
  if (info.value_name == "TEXT" || info.value_name.empty()) info.value_name = "WORD";
  if (info.value_name == "INT" || info.value_name == "UINT") info.value_name = "N";
  if (info.value_name == "FLOAT") info.value_name = "X";
  return info;
}

void add(const CLI::App& app, std::vector<std::string> path, std::vector<CommandInfo>& out) {
  const size_t index = out.size();
  out.push_back(
      {.path = path, .description = app.get_description(), .options = {}, .subcommands = {}});
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) out[index].options.push_back(option_info(*option));
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_group().empty() || below->get_name().empty()) continue;
    out[index].subcommands.push_back(below->get_name());
    path.push_back(below->get_name());
    add(*below, path, out);
    path.pop_back();
  }
}

}  // namespace

bool OptionInfo::takes_file() const {
  if (positional && names.front() == "MODEL") return true;
  return value_name == "FILE" || value_name == "DIR";
}

std::vector<CommandInfo> command_tree(const CLI::App& app) {
  std::vector<CommandInfo> commands;
  add(app, {}, commands);
  return commands;
}

}  // namespace hs
