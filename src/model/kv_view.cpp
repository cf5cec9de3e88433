#include "base/check.h"
#include "model/model.h"

namespace hs {

void KvView::append_runs(const KvView& to, int32_t block, int32_t to_block, int32_t n_rows,
                         std::vector<CopyRun>& runs) const {
  HS_CHECK_LE(n_rows, layout.block_size);
  HS_CHECK_EQ(n_layers, to.n_layers);
  HS_CHECK_EQ(layout.block_bytes(), to.layout.block_bytes());
  const size_t block_bytes = layout.block_bytes();
  // One head's rows follow each other; a whole block is one piece.
  const auto n_pages = static_cast<size_t>(2 * layout.n_kv_heads);
  const size_t page_bytes = block_bytes / n_pages;
  const size_t run_bytes =
      page_bytes / static_cast<size_t>(layout.block_size) * static_cast<size_t>(n_rows);
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    const auto* from_block = static_cast<const std::byte*>(data) +
                             static_cast<size_t>(layer * n_blocks + block) * block_bytes;
    auto* target = static_cast<std::byte*>(to.data) +
                   static_cast<size_t>(layer * to.n_blocks + to_block) * block_bytes;
    if (n_rows == layout.block_size) {
      runs.push_back({from_block, target, block_bytes});
      continue;
    }
    for (size_t page = 0; page < n_pages; ++page) {
      runs.push_back({from_block + page * page_bytes, target + page * page_bytes, run_bytes});
    }
  }
}

}  // namespace hs
