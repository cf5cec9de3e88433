// `heteroserve config show` and `check`, `heteroserve version`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "api/version.h"
#include "app/commands.h"
#include "app/exit_codes.h"

namespace hs {

int config_command(const LoadedConfig& loaded, bool show) {
  if (!show) {
    fmt::print("The configuration is good.\n");
    return kExitOk;
  }
  size_t width = 0;
  for (const auto& [key, value] : loaded.values) width = std::max(width, key.size());
  for (const auto& [key, value] : loaded.values)
    fmt::print("{:<{}} = {:<28} # {}\n", key, width, value.value, value.origin);
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
