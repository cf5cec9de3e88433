// The command line: sub-commands, their flags, and which function runs.
#pragma once

#include <span>
#include <string>

namespace hs {

// The whole program; `arguments` without the program's name, `environment` as in environ. Returns
// the exit status (exit_codes.h).
int run_program(std::span<const std::string> arguments, std::span<const char* const> environment);

}  // namespace hs
