// Builds the tree level by level from sorted keys.
#include "runtime/text/byte_trie.h"

#include <deque>

namespace deepslice {

void ByteTrie::Build(std::vector<std::pair<absl::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  nodes_.assign(1, Node());
  labels_.assign(1, 0);
  std::fill(std::begin(root_), std::end(root_), 0u);
  // Keys [begin, end) share the first `depth` bytes, which lead to `node`.
  struct Range {
    uint32_t node;
    size_t begin, end, depth;
  };
  // No more than a level at a time: a trie of long keys has many.
  std::deque<Range> todo = {{0, 0, keys.size(), 0}};
  while (!todo.empty()) {
    Range r = todo.front();
    todo.pop_front();
    while (r.begin < r.end && keys[r.begin].first.size() == r.depth) {
      if (nodes_[r.node].value < 0) nodes_[r.node].value = keys[r.begin].second;
      ++r.begin;
    }
    nodes_[r.node].first_child = static_cast<uint32_t>(nodes_.size());
    for (size_t i = r.begin; i < r.end;) {
      const auto label = static_cast<uint8_t>(keys[i].first[r.depth]);
      size_t end = i + 1;
      while (end < r.end &&
             static_cast<uint8_t>(keys[end].first[r.depth]) == label) {
        ++end;
      }
      const auto child = static_cast<uint32_t>(nodes_.size());
      if (r.node == 0) root_[label] = child;
      nodes_.emplace_back();
      labels_.push_back(label);
      ++nodes_[r.node].children;
      todo.push_back({child, i, end, r.depth + 1});
      i = end;
    }
  }
}

int32_t ByteTrie::Longest(absl::string_view text, size_t pos,
                          size_t* size) const {
  int32_t best = -1;
  Cursor cursor(*this);
  for (size_t i = pos; i < text.size() && cursor.Step(text[i]); ++i) {
    if (cursor.value() >= 0) {
      best = cursor.value();
      *size = i + 1 - pos;
    }
  }
  return best;
}

}  // namespace deepslice
