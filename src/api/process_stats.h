// What the operating system says about this process.
#pragma once

#include <cstdint>

namespace hs {

struct ProcessStats {
  double cpu_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t open_files = 0;
};

// From /proc, which is memory, so the loop may call it.
ProcessStats process_stats();

}  // namespace hs
