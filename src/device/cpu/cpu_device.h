// The CPU backend: a real device, whose stream is a team of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"

namespace hs {

struct CpuDeviceOptions {
  int index = 0;
  int threads = 0;  // 0: one for each core of `cores`, or of the process
  // Pin the team to these cores, and the lane's thread (attach_thread()) to the first of them;
  // empty: not pinned. The initializer is for designated ones, where
  // GCC asks for it.
  std::vector<int> cores = {};  // NOLINT(readability-redundant-member-init)
  // Rows of the largest op. What ops of so many rows need besides their operands is allocated while
  // the weights are packed; an op of more rows allocates when it runs.
  int64_t rows_max = 2560;
};

// Scratch of ops with one weight: products of up to n_rows rows with it, and sampling from as many
// logits as it has outputs. What attention takes is less.
struct CpuScratchBytes {
  size_t first = 0;  // of worker 0
  size_t other = 0;  // of each other worker
};
CpuScratchBytes cpu_scratch_bytes(int64_t out_dim, int64_t in_dim, int64_t n_rows);

Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace hs
