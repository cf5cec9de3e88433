// All blocks of the KV cache: who holds them, which are free, and which can be found again by their
// content.
//
// Numbers only: knows no device and no memory. Owned by the scheduler; the loop thread only.
//
// A block is in one of three places: held (reference count > 0), cached (nobody holds it, but its
// content can be found; least recently released goes first), or free (nothing of use in it; freed
// last is reused first, since its memory has been touched and may still be in the caches).
//
// The prefix cache is a tree: a published block is a node, named by its parent node and its
// content. The content (token ids, and for image placeholders the picture's hash and the rows of
// it) is compared in full, so no hash collision can ever hand out a wrong block. Only full blocks
// are published, so no held block that is shared is ever written to.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace hs {

using BlockId = int32_t;
constexpr BlockId kNoBlock = -1;

// A published block. Never reused, so a child of an evicted parent can never be found under a new
// one.
using PrefixNode = uint64_t;
constexpr PrefixNode kPrefixRoot = 0;

// The part of a picture that lies in a block.
struct ImagePart {
  uint64_t content_hash[2] = {0, 0};
  int32_t offset = 0;     // slot of its first token inside the block
  int32_t count = 0;      // tokens of it in this block
  int32_t first_row = 0;  // which row of the picture the first token is
  bool operator==(const ImagePart&) const = default;
};

class BlockPool {
 public:
  // REQUIRES: n_blocks > 0, block_size > 0. Without `prefix_cache` nothing is published or found.
  BlockPool(int32_t n_blocks, int32_t block_size, bool prefix_cache);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int32_t block_size() const { return block_size_; }
  int32_t n_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  // Blocks that allocate() can still hand out.
  int32_t n_available() const { return free_.size + cached_.size; }
  int32_t n_held() const { return n_blocks() - n_available(); }
  int32_t n_cached() const { return cached_.size; }  // findable and held by nobody
  int32_t ref_count(BlockId block) const;

  // A block with one reference, or kNoBlock when all are held. Evicts the least recently released
  // cached block when no free one is left.
  BlockId allocate();
  void add_ref(BlockId block);
  // The last reference gone, a published block stays findable; any other becomes free.
  void release(BlockId block);

  struct Found {
    BlockId block = kNoBlock;
    PrefixNode node = kPrefixRoot;
  };
  // The published block with this content under `parent`; takes no reference.
  // REQUIRES: tokens.size() == block_size().
  Found find(PrefixNode parent, std::span<const int32_t> tokens,
             std::span<const ImagePart> images) const;
  // Makes a held, fully written block findable and returns its node. When the same content is
  // already there the block stays private and the existing node is returned, so that a chain can go
  // on from it.
  PrefixNode publish(BlockId block, PrefixNode parent, std::span<const int32_t> tokens,
                     std::span<const ImagePart> images);
  // The block can no longer be found (its content turned out bad). Whoever holds it still does.
  void unpublish(BlockId block);

 private:
  struct Block {
    int32_t refs = 0;
    BlockId previous = kNoBlock;  // neighbours in free_ or cached_ while refs is 0
    BlockId next = kNoBlock;
    PrefixNode node = kPrefixRoot;  // kPrefixRoot: not published
    PrefixNode parent = kPrefixRoot;
    uint64_t hash = 0;
    std::vector<ImagePart> images;
  };
  struct List {
    BlockId head = kNoBlock;
    BlockId tail = kNoBlock;
    int32_t size = 0;
  };

  static uint64_t hash_of(PrefixNode parent, std::span<const int32_t> tokens,
                          std::span<const ImagePart> images);
  std::span<int32_t> tokens_of(BlockId block);
  std::span<const int32_t> tokens_of(BlockId block) const;
  Block& at(BlockId block);
  void push_back(List& list, BlockId block);
  void push_front(List& list, BlockId block);
  void remove(List& list, BlockId block);
  void forget(Block& block, BlockId id);

  int32_t block_size_;
  bool prefix_cache_;
  std::vector<Block> blocks_;
  std::vector<int32_t> tokens_;  // (n_blocks, block_size) ids of published blocks
  List free_;
  List cached_;
  std::unordered_multimap<uint64_t, BlockId> index_;  // by hash, published blocks only
  PrefixNode next_node_ = kPrefixRoot + 1;
};

}  // namespace hs
