// Blocks are handed out, shared, found again and evicted as a naive pool would do it, and content
// is found only under exactly what it was published with.
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <random>

#include "engine/block_pool.h"
#include "engine/engine_fixture.h"

using namespace hs;

namespace {

using Tokens = std::vector<int32_t>;

ImagePart part(uint64_t picture, int32_t offset, int32_t count, int32_t first_row) {
  return {.content_hash = {picture, picture + 1},
          .offset = offset,
          .count = count,
          .first_row = first_row};
}

// Lists instead of links, content in a map instead of hashes.
struct NaivePool {
  explicit NaivePool(int32_t n) {
    for (BlockId b = 0; b < n; ++b) free.push_back(b);
  }
  BlockId allocate() {
    BlockId block = kNoBlock;
    if (!free.empty()) {
      block = free.front();
      free.pop_front();
    } else if (!cached.empty()) {
      block = cached.front();
      cached.pop_front();
      std::erase_if(content, [&](const auto& entry) { return entry.second.first == block; });
    } else {
      return kNoBlock;
    }
    refs[block] = 1;
    return block;
  }
  bool published(BlockId block) const {
    return std::ranges::any_of(content, [&](const auto& e) { return e.second.first == block; });
  }
  void add_ref(BlockId block) {
    if (refs[block]++ == 0) std::erase(cached, block);
  }
  void release(BlockId block) {
    if (--refs[block] > 0) return;
    if (published(block)) {
      cached.push_back(block);
    } else {
      free.push_front(block);
    }
  }

  std::deque<BlockId> free, cached;
  std::map<BlockId, int> refs;
  std::map<std::pair<PrefixNode, Tokens>, std::pair<BlockId, PrefixNode>> content;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(block_pool_tests)

BOOST_AUTO_TEST_CASE(every_block_is_handed_out_once_until_none_is_left) {
  BlockPool pool(3, 4, true);
  std::vector<bool> seen(3);
  for (int i = 0; i < 3; ++i) {
    const BlockId block = pool.allocate();
    BOOST_REQUIRE(block != kNoBlock);
    BOOST_TEST(!seen[static_cast<size_t>(block)]);
    seen[static_cast<size_t>(block)] = true;
  }
  BOOST_TEST(pool.allocate() == kNoBlock);
  BOOST_TEST(pool.n_held() == 3);
  pool.release(1);
  BOOST_TEST(pool.allocate() == 1);
}

BOOST_AUTO_TEST_CASE(freed_block_is_reused_first) {
  BlockPool pool(4, 4, true);
  const BlockId first = pool.allocate();
  const BlockId second = pool.allocate();
  pool.release(first);
  pool.release(second);
  BOOST_TEST(pool.allocate() == second);
  BOOST_TEST(pool.allocate() == first);
}

BOOST_AUTO_TEST_CASE(a_shared_block_is_free_when_the_last_holder_lets_go) {
  BlockPool pool(1, 4, false);
  const BlockId block = pool.allocate();
  pool.add_ref(block);
  pool.release(block);
  BOOST_TEST(pool.allocate() == kNoBlock);
  BOOST_TEST(pool.ref_count(block) == 1);
  pool.release(block);
  BOOST_TEST(pool.allocate() == block);
}

BOOST_AUTO_TEST_CASE(published_content_is_found_under_its_parent_only) {
  BlockPool pool(4, 2, true);
  const BlockId a = pool.allocate();
  const PrefixNode node = pool.publish(a, kPrefixRoot, Tokens{1, 2}, {});
  const BlockId b = pool.allocate();
  pool.publish(b, node, Tokens{1, 2}, {});
  BOOST_TEST(pool.find(kPrefixRoot, Tokens{1, 2}, {}).block == a);
  BOOST_TEST(pool.find(node, Tokens{1, 2}, {}).block == b);
  BOOST_TEST(pool.find(node + 100, Tokens{1, 2}, {}).block == kNoBlock);
  BOOST_TEST(pool.find(kPrefixRoot, Tokens{2, 1}, {}).block == kNoBlock);
}

BOOST_AUTO_TEST_CASE(pictures_belong_to_the_content) {
  BlockPool pool(8, 4, true);
  const Tokens tokens{9, 9, 9, 9};
  const std::vector<ImagePart> image{part(5, 0, 4, 8)};
  const BlockId block = pool.allocate();
  pool.publish(block, kPrefixRoot, tokens, image);
  BOOST_TEST(pool.find(kPrefixRoot, tokens, image).block == block);
  BOOST_TEST(pool.find(kPrefixRoot, tokens, {}).block == kNoBlock);
  for (const ImagePart& other :
       {part(6, 0, 4, 8), part(5, 0, 4, 4), part(5, 1, 3, 8), part(5, 0, 3, 8)}) {
    BOOST_TEST(pool.find(kPrefixRoot, tokens, std::vector{other}).block == kNoBlock);
  }
  ImagePart second_word = image[0];
  second_word.content_hash[1] ^= 1;
  BOOST_TEST(pool.find(kPrefixRoot, tokens, std::vector{second_word}).block == kNoBlock);
}

BOOST_AUTO_TEST_CASE(the_least_recently_released_cached_block_is_evicted_first) {
  BlockPool pool(3, 1, true);
  BlockId blocks[3];
  for (int32_t i = 0; i < 3; ++i) {
    blocks[i] = pool.allocate();
    pool.publish(blocks[i], kPrefixRoot, Tokens{i}, {});
  }
  for (const int i : {1, 0, 2}) pool.release(blocks[i]);
  BOOST_TEST(pool.n_cached() == 3);
  BOOST_TEST(pool.n_available() == 3);
  pool.add_ref(blocks[1]);  // used again: now the youngest
  pool.release(blocks[1]);
  BOOST_TEST(pool.allocate() == blocks[0]);
  BOOST_TEST(pool.find(kPrefixRoot, Tokens{0}, {}).block == kNoBlock);
  BOOST_TEST(pool.allocate() == blocks[2]);
  BOOST_TEST(pool.find(kPrefixRoot, Tokens{1}, {}).block == blocks[1]);
}

BOOST_AUTO_TEST_CASE(free_blocks_go_before_cached_ones) {
  BlockPool pool(2, 1, true);
  const BlockId cached = pool.allocate();
  pool.publish(cached, kPrefixRoot, Tokens{7}, {});
  pool.release(cached);
  const BlockId other = pool.allocate();
  pool.release(other);
  BOOST_TEST(pool.allocate() == other);
}

BOOST_AUTO_TEST_CASE(children_of_an_evicted_parent_are_never_found_again) {
  BlockPool pool(3, 1, true);
  const BlockId parent = pool.allocate();
  const PrefixNode node = pool.publish(parent, kPrefixRoot, Tokens{1}, {});
  const BlockId child = pool.allocate();
  pool.publish(child, node, Tokens{2}, {});
  pool.release(parent);
  const BlockId other = pool.allocate();  // the last free block
  BOOST_TEST(pool.allocate() == parent);  // evicted
  const PrefixNode again = pool.publish(parent, kPrefixRoot, Tokens{1}, {});
  BOOST_TEST(again != node);
  BOOST_TEST(pool.find(again, Tokens{2}, {}).block == kNoBlock);
  // The child can be made findable again under the new parent.
  const PrefixNode child_node = pool.publish(child, again, Tokens{2}, {});
  BOOST_TEST(pool.find(again, Tokens{2}, {}).block == child);
  BOOST_TEST(pool.find(again, Tokens{2}, {}).node == child_node);
  BOOST_TEST(pool.find(node, Tokens{2}, {}).block == kNoBlock);
  BOOST_TEST(other != parent);
}

BOOST_AUTO_TEST_CASE(equal_content_is_published_once) {
  BlockPool pool(2, 1, true);
  const BlockId a = pool.allocate();
  const BlockId b = pool.allocate();
  const PrefixNode node = pool.publish(a, kPrefixRoot, Tokens{1}, {});
  BOOST_TEST(pool.publish(b, kPrefixRoot, Tokens{1}, {}) == node);
  pool.release(b);
  BOOST_TEST(pool.n_cached() == 0);  // b has nothing that can be found
  pool.release(a);
  BOOST_TEST(pool.n_cached() == 1);
}

BOOST_AUTO_TEST_CASE(an_unpublished_block_is_not_found_and_ends_free) {
  BlockPool pool(2, 1, true);
  const BlockId a = pool.allocate();
  pool.publish(a, kPrefixRoot, Tokens{1}, {});
  pool.unpublish(a);
  BOOST_TEST(pool.find(kPrefixRoot, Tokens{1}, {}).block == kNoBlock);
  pool.release(a);
  BOOST_TEST(pool.n_cached() == 0);
  const BlockId b = pool.allocate();
  pool.publish(b, kPrefixRoot, Tokens{2}, {});
  pool.release(b);
  pool.unpublish(b);
  BOOST_TEST(pool.n_cached() == 0);
  BOOST_TEST(pool.n_available() == 2);
}

BOOST_AUTO_TEST_CASE(without_a_prefix_cache_nothing_is_found) {
  BlockPool pool(1, 1, false);
  const BlockId block = pool.allocate();
  BOOST_TEST(pool.publish(block, kPrefixRoot, Tokens{1}, {}) == kPrefixRoot);
  BOOST_TEST(pool.find(kPrefixRoot, Tokens{1}, {}).block == kNoBlock);
  pool.release(block);
  BOOST_TEST(pool.n_cached() == 0);
}

BOOST_AUTO_TEST_CASE(any_sequence_of_calls_agrees_with_a_naive_pool) {
  const uint32_t seed = hs::test::test_seed();
  BOOST_TEST_CONTEXT("seed " << seed) {
    std::mt19937 random(seed);
    constexpr int32_t kBlocks = 12;
    BlockPool pool(kBlocks, 2, true);
    NaivePool naive(kBlocks);
    std::vector<BlockId> held;  // one entry a reference
    std::vector<PrefixNode> nodes{kPrefixRoot};
    for (int i = 0; i < 20'000; ++i) {
      const Tokens tokens{static_cast<int32_t>(random() % 3), static_cast<int32_t>(random() % 2)};
      const PrefixNode parent =
          nodes[nodes.size() - 1 - random() % std::min<size_t>(nodes.size(), 8)];
      switch (random() % 4) {
        case 0: {
          const BlockId block = pool.allocate();
          BOOST_REQUIRE_EQUAL(block, naive.allocate());
          if (block != kNoBlock) held.push_back(block);
          break;
        }
        case 1: {
          if (held.empty()) break;
          std::swap(held[random() % held.size()], held.back());
          pool.release(held.back());
          naive.release(held.back());
          held.pop_back();
          break;
        }
        case 2: {
          const BlockPool::Found found = pool.find(parent, tokens, {});
          const auto it = naive.content.find({parent, tokens});
          BOOST_REQUIRE_EQUAL(found.block, it == naive.content.end() ? kNoBlock : it->second.first);
          if (found.block == kNoBlock) break;
          BOOST_REQUIRE_EQUAL(found.node, it->second.second);
          pool.add_ref(found.block);
          naive.add_ref(found.block);
          held.push_back(found.block);
          break;
        }
        default: {
          if (held.empty() || naive.published(held.back())) break;
          const PrefixNode node = pool.publish(held.back(), parent, tokens, {});
          const auto [it, fresh] =
              naive.content.try_emplace({parent, tokens}, std::pair{held.back(), node});
          BOOST_REQUIRE_EQUAL(node, it->second.second);
          if (fresh) {
            BOOST_REQUIRE(std::ranges::find(nodes, node) == nodes.end());
            nodes.push_back(node);
          }
        }
      }
      BOOST_REQUIRE_EQUAL(pool.n_available(),
                          static_cast<int32_t>(naive.free.size() + naive.cached.size()));
      BOOST_REQUIRE_EQUAL(pool.n_cached(), static_cast<int32_t>(naive.cached.size()));
    }
    for (const BlockId block : held) pool.release(block);
    BOOST_TEST(pool.n_held() == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
