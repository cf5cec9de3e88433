// `heteroserve config show`, `check` and `path`, `heteroserve version`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "api/admin_state.h"
#include "api/json_writer.h"
#include "api/version.h"
#include "app/commands.h"
#include "app/exit_codes.h"

namespace hs {
namespace {

// What the page's settings show, too.
void show_json(const LoadedConfig& loaded, bool set_only) {
  std::vector<SettingInfo> infos;
  for (const Setting& setting : settings()) {
    const SettingValue& value = loaded.values.at(setting.key);
    if (set_only && value.origin == "default") continue;
    infos.push_back({setting.key, value.value, value.origin, setting.flag, setting.environment,
                     setting.description});
  }
  fmt::print("{}\n", settings_json(infos));
}

void show(const LoadedConfig& loaded, bool set_only) {
  size_t width = 0;
  for (const auto& [key, value] : loaded.values) width = std::max(width, key.size());
  for (const auto& [key, value] : loaded.values)
    if (!set_only || value.origin != "default")
      fmt::print("{:<{}} = {:<28} # {}\n", key, width, value.value, value.origin);
}

// Errors have ended the program before: load_config() finds them.
void check(const LoadedConfig& loaded, bool json) {
  const auto warnings = config_warnings(loaded.config);
  if (!json) {
    for (const std::string& warning : warnings)
      fmt::print(stderr, "heteroserve warning: {}\n", warning);
    fmt::print("The configuration is good.\n");
    return;
  }
  std::string out = "{\"good\":true,\"warnings\":[";
  for (const std::string& warning : warnings) {
    if (out.back() != '[') out += ',';
    append_json_string(out, warning);
  }
  fmt::print("{}]}}\n", out);
}

void show_paths(const LoadedConfig& loaded, bool json) {
  std::string out = "[";
  for (const std::string& file : loaded.files) {
    if (!json) fmt::print("{}\n", file);
    if (out.back() != '[') out += ',';
    append_json_string(out, file);
  }
  if (json) fmt::print("{}]\n", out);
}

}  // namespace

int config_command(const LoadedConfig& loaded, const ConfigOptions& options) {
  if (options.action == "check")
    check(loaded, options.json);
  else if (options.action == "path")
    show_paths(loaded, options.json);
  else if (options.json)
    show_json(loaded, options.set_only);
  else
    show(loaded, options.set_only);
  return kExitOk;
}

int version_command() {
  fmt::print("heteroserve {}\n", version());
  return kExitOk;
}

void print_error(const Error& error) {
  fmt::print(stderr, "heteroserve: {}\n", error.message);
}

}  // namespace hs
