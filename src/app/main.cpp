#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "app/command_line.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  size_t n_environment = 0;
  while (environ[n_environment] != nullptr) ++n_environment;
  return hs::run_program(arguments, std::span<const char* const>(environ, n_environment));
}
