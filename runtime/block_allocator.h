// The cache's blocks: which are free.
#ifndef DEEPSLICE_RUNTIME_BLOCK_ALLOCATOR_H_
#define DEEPSLICE_RUNTIME_BLOCK_ALLOCATOR_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schema/base/check.h"

namespace deepslice {

// Blocks 0 .. num_blocks - 1. Allocates memory only when made.
class BlockAllocator {
 public:
  explicit BlockAllocator(int64_t num_blocks) : used_(num_blocks, false) {
    free_.reserve(num_blocks);
    for (int64_t b = num_blocks; b-- > 0;) {
      free_.push_back(static_cast<int32_t>(b));
    }
  }

  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // Fills `out` with free blocks, which are then taken; false, and nothing
  // taken, when there are too few.
  bool Take(absl::Span<int32_t> out) {
    if (out.size() > free_.size()) return false;
    for (int32_t& block : out) {
      block = free_.back();
      free_.pop_back();
      used_[block] = true;
    }
    return true;
  }

  // Gives blocks back that Take gave.
  void Release(absl::Span<const int32_t> blocks) {
    for (size_t i = blocks.size(); i-- > 0;) {
      DS_CHECK(used_[blocks[i]]);
      used_[blocks[i]] = false;
      free_.push_back(blocks[i]);
    }
  }

 private:
  std::vector<int32_t> free_;  // the next one last
  std::vector<bool> used_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BLOCK_ALLOCATOR_H_
