// A vocabulary as a trie over the bytes of its tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/byte_set.h"

namespace hs {

class TokenTrie {
 public:
  // In the order of a walk that visits a node before its children.
  struct Node {
    uint32_t end = 0;          // one behind the last node below this one
    uint32_t first_token = 0;  // of tokens(): those whose bytes end here ...
    uint32_t own_end = 0;      // ... up to here
    uint32_t tokens_end = 0;   // ... and those that begin with these bytes up to here
    uint16_t depth = 0;        // bytes from the root
    uint8_t byte = 0;          // the last of them
  };

  // bytes[id]: what the token adds to a text; tokens without bytes are not in the trie, nor are
  // those with more than 65,535.
  explicit TokenTrie(std::span<const std::string> bytes);

  const std::vector<Node>& nodes() const { return nodes_; }       // [0] is the root
  const std::vector<int32_t>& tokens() const { return tokens_; }  // ids, in the order of bytes
  const ByteSet& bytes_below(uint32_t node) const { return below_[node]; }
  std::string_view token_bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  int32_t vocabulary_size() const { return static_cast<int32_t>(bytes_.size()); }
  int32_t longest() const { return longest_; }  // token, in bytes

 private:
  std::vector<std::string> bytes_;
  std::vector<int32_t> tokens_;
  std::vector<Node> nodes_;
  std::vector<ByteSet> below_;
  int32_t longest_ = 0;
};

}  // namespace hs
