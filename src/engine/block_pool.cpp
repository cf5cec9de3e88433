#include "engine/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace hs {
namespace {

// The finaliser of MurmurHash3: every input bit reaches every output bit.
constexpr uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

}  // namespace

BlockPool::BlockPool(int32_t n_blocks, int32_t block_size, bool prefix_cache)
    : block_size_(block_size), prefix_cache_(prefix_cache) {
  HS_CHECK_GT(n_blocks, 0);
  HS_CHECK_GT(block_size, 0);
  blocks_.resize(static_cast<size_t>(n_blocks));
  if (prefix_cache_) {
    tokens_.resize(static_cast<size_t>(n_blocks) * static_cast<size_t>(block_size));
    index_.reserve(static_cast<size_t>(n_blocks));
  }
  for (BlockId block = 0; block < n_blocks; ++block) push_back(free_, block);
}

int32_t BlockPool::ref_count(BlockId block) const {
  return blocks_.at(static_cast<size_t>(block)).refs;
}

BlockPool::Block& BlockPool::at(BlockId block) {
  HS_CHECK_GE(block, 0);
  HS_CHECK_LT(block, n_blocks());
  return blocks_[static_cast<size_t>(block)];
}

BlockId BlockPool::allocate() {
  BlockId block = free_.head;
  if (block != kNoBlock) {
    remove(free_, block);
  } else {
    block = cached_.head;
    if (block == kNoBlock) return kNoBlock;
    remove(cached_, block);
    forget(at(block), block);
  }
  at(block).refs = 1;
  return block;
}

void BlockPool::add_ref(BlockId block) {
  Block& b = at(block);
  if (b.refs == 0) {
    HS_CHECK(b.node != kPrefixRoot);  // a free block has nothing worth holding
    remove(cached_, block);
  }
  ++b.refs;
}

void BlockPool::release(BlockId block) {
  Block& b = at(block);
  HS_CHECK_GT(b.refs, 0);
  if (--b.refs > 0) return;
  if (b.node != kPrefixRoot) {
    push_back(cached_, block);
  } else {
    push_front(free_, block);
  }
}

BlockPool::Found BlockPool::find(PrefixNode parent, std::span<const int32_t> tokens,
                                 std::span<const ImagePart> images) const {
  if (!prefix_cache_) return {};
  HS_CHECK_EQ(tokens.size(), static_cast<size_t>(block_size_));
  const auto [first, last] = index_.equal_range(hash_of(parent, tokens, images));
  for (auto it = first; it != last; ++it) {
    const Block& b = blocks_[static_cast<size_t>(it->second)];
    if (b.parent == parent && std::ranges::equal(b.images, images) &&
        std::ranges::equal(tokens_of(it->second), tokens)) {
      return {it->second, b.node};
    }
  }
  return {};
}

PrefixNode BlockPool::publish(BlockId block, PrefixNode parent, std::span<const int32_t> tokens,
                              std::span<const ImagePart> images) {
  if (!prefix_cache_) return kPrefixRoot;
  if (const Found found = find(parent, tokens, images); found.block != kNoBlock) return found.node;
  Block& b = at(block);
  HS_CHECK_GT(b.refs, 0);
  // It may stand under a parent that was evicted, where nobody finds it any more.
  if (b.node != kPrefixRoot) forget(b, block);
  b.node = next_node_++;
  b.parent = parent;
  b.hash = hash_of(parent, tokens, images);
  b.images.assign(images.begin(), images.end());
  std::ranges::copy(tokens, tokens_of(block).begin());
  index_.emplace(b.hash, block);
  return b.node;
}

uint64_t BlockPool::hash_of(PrefixNode parent, std::span<const int32_t> tokens,
                            std::span<const ImagePart> images) {
  uint64_t h = mix(parent + 0x9e3779b97f4a7c15ULL);
  for (const int32_t token : tokens)
    h = mix(h ^ static_cast<uint32_t>(token)) + 0x9e3779b97f4a7c15ULL;
  for (const ImagePart& part : images) {
    h = mix(h ^ part.content_hash[0]);
    h = mix(h ^ part.content_hash[1]);
    h = mix(h ^ (static_cast<uint64_t>(part.first_row) << 32 ^
                 static_cast<uint64_t>(part.offset) << 16 ^ static_cast<uint64_t>(part.count)));
  }
  return h;
}

std::span<int32_t> BlockPool::tokens_of(BlockId block) {
  const auto size = static_cast<size_t>(block_size_);
  return std::span(tokens_).subspan(static_cast<size_t>(block) * size, size);
}

std::span<const int32_t> BlockPool::tokens_of(BlockId block) const {
  const auto size = static_cast<size_t>(block_size_);
  return std::span(tokens_).subspan(static_cast<size_t>(block) * size, size);
}

void BlockPool::push_back(List& list, BlockId block) {
  Block& b = at(block);
  b.previous = list.tail;
  b.next = kNoBlock;
  (list.tail == kNoBlock ? list.head : at(list.tail).next) = block;
  list.tail = block;
  ++list.size;
}

void BlockPool::push_front(List& list, BlockId block) {
  Block& b = at(block);
  b.previous = kNoBlock;
  b.next = list.head;
  (list.head == kNoBlock ? list.tail : at(list.head).previous) = block;
  list.head = block;
  ++list.size;
}

void BlockPool::remove(List& list, BlockId block) {
  Block& b = at(block);
  (b.previous == kNoBlock ? list.head : at(b.previous).next) = b.next;
  (b.next == kNoBlock ? list.tail : at(b.next).previous) = b.previous;
  b.previous = b.next = kNoBlock;
  --list.size;
}

void BlockPool::unpublish(BlockId block) {
  Block& b = at(block);
  if (b.node == kPrefixRoot) return;
  if (b.refs == 0) {
    remove(cached_, block);
    push_front(free_, block);
  }
  forget(b, block);
}

void BlockPool::forget(Block& block, BlockId id) {
  const auto [first, last] = index_.equal_range(block.hash);
  for (auto it = first; it != last; ++it) {
    if (it->second == id) {
      index_.erase(it);
      break;
    }
  }
  block.node = kPrefixRoot;
  block.images.clear();
}

}  // namespace hs
