#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace hs {

void check_failed(const char* file, int line, std::string_view text) {
  fmt::print(stderr, "{}:{}: check failed: {}\n", file, line, text);
  std::fflush(stderr);
  std::abort();
}

}  // namespace hs
