#include "api/process_stats.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace hs {

ProcessStats process_stats() {
  ProcessStats stats;
  timespec cpu{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
    stats.cpu_seconds = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (file >> total_pages >> resident_pages)
    stats.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error))
    ++stats.open_files;
  return stats;
}

}  // namespace hs
