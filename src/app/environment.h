// The environment of this process, as what reads settings from it takes it.
#pragma once

#include <cstdlib>

namespace hs {

inline const char* process_environment(const char* name) {
  return std::getenv(name);
}

}  // namespace hs
