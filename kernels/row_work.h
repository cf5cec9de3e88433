// Handing rows to the team in pieces worth waking a thread for.
#pragma once

#include "kernels/simd.h"
#include "kernels/team.h"

namespace hs::HS_ISA_NS {

// Calls work(first_row, last_row) for ranges that cover 0 .. n_rows-1; each but the last holds at
// least kElementsMin elements.
template <typename Work>
HS_INLINE void run_rows(Team& team, int64_t n_rows, int64_t row_elements, const Work& work) {
  constexpr int64_t kElementsMin = 16384;
  const int64_t step = row_elements >= kElementsMin ? 1 : kElementsMin / (row_elements + 1) + 1;
  const int64_t n_items = (n_rows + step - 1) / step;
  if (n_items <= 1) {
    if (n_rows > 0) work(int64_t{0}, n_rows);
    return;
  }
  team.run(n_items, [&](int64_t item, int) {
    const int64_t first = item * step;
    const int64_t last = first + step < n_rows ? first + step : n_rows;
    work(first, last);
  });
}

}  // namespace hs::HS_ISA_NS
