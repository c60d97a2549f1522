// Finds every key that a text starts with.
#ifndef DEEPSLICE_RUNTIME_TEXT_BYTE_TRIE_H_
#define DEEPSLICE_RUNTIME_TEXT_BYTE_TRIE_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace deepslice {

// A tree over bytes whose nodes lie level by level, so that the children of a
// node are neighbours. Immutable after Build, thread-safe.
class ByteTrie {
 public:
  // Keys are not empty; of equal ones the first counts. Values are >= 0.
  void Build(std::vector<std::pair<absl::string_view, int32_t>> keys);
  bool empty() const { return nodes_.empty(); }

  // A walk from the root, byte by byte.
  class Cursor {
   public:
    explicit Cursor(const ByteTrie& trie) : trie_(trie) {}
    // Whether some key goes on with this byte.
    bool Step(uint8_t byte) {
      if (at_ == 0) {
        at_ = trie_.nodes_.empty() ? 0 : trie_.root_[byte];
        return at_ != 0;
      }
      const Node& n = trie_.nodes_[at_];
      const uint8_t* first = trie_.labels_.data() + n.first_child;
      const uint8_t* last = first + n.children;
      const uint8_t* it = n.children <= 8 ? std::find(first, last, byte)
                                          : std::lower_bound(first, last, byte);
      if (it == last || *it != byte) return false;
      at_ = n.first_child + static_cast<uint32_t>(it - first);
      return true;
    }
    // Of the key that ends here, or -1.
    int32_t value() const { return trie_.nodes_[at_].value; }

   private:
    const ByteTrie& trie_;
    uint32_t at_ = 0;
  };

  // The longest key that text[pos:] starts with: its value, or -1.
  int32_t Longest(absl::string_view text, size_t pos, size_t* size) const;

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    int32_t value = -1;
  };
  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;  // of each node, from its parent
  uint32_t root_[256] = {};
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_BYTE_TRIE_H_
