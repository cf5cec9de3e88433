#include "app/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace hs {
namespace {

constexpr rlim_t kEnough = 1 << 20;  // where there is no limit, tables of that size cost memory
constexpr size_t kReserve = 256;     // of the rest of the process, and for clients that are refused
constexpr size_t kBesideTheQueue = 1024;

}  // namespace

size_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur < wanted) {
    rlimit raised = limit;
    raised.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return std::min(limit.rlim_cur, kEnough);
}

size_t connections_max(const Config& config, size_t descriptor_limit) {
  const size_t wanted = config.max_connections > 0
                            ? static_cast<size_t>(config.max_connections)
                            : static_cast<size_t>(config.max_queue) +
                                  static_cast<size_t>(config.max_num_seqs) + kBesideTheQueue;
  return std::min(wanted, descriptor_limit - std::min(kReserve, descriptor_limit / 2));
}

}  // namespace hs
