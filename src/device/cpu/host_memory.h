// Aligned host memory for the CPU device: zeroed, and in 2 MiB pages where it is large.
#pragma once

#include <cstddef>

namespace hs {

// 64-byte aligned and zero. Areas of 1 MiB and more start on a 2 MiB border and ask the kernel for
// huge pages, which saves the address misses of streaming weights; they take real memory only when
// touched. Null when there is no memory. bytes > 0.
void* allocate_host_memory(size_t bytes);

// `bytes` as given to allocate_host_memory. Safe from any thread.
void free_host_memory(void* data, size_t bytes);

}  // namespace hs
