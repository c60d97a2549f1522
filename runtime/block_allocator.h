// The cache's blocks: which are free, and how many sequences have each.
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
  explicit BlockAllocator(int64_t num_blocks) : users_(num_blocks, 0) {
    free_.reserve(num_blocks);
    for (int64_t b = num_blocks; b-- > 0;) {
      free_.push_back(static_cast<int32_t>(b));
    }
  }

  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // Fills `out` with free blocks, which then have one user; false, and nothing
  // taken, when there are too few.
  bool Take(absl::Span<int32_t> out) {
    if (out.size() > free_.size()) return false;
    for (int32_t& block : out) {
      block = free_.back();
      free_.pop_back();
      users_[block] = 1;
    }
    return true;
  }

  // Another user of blocks that have one.
  void Share(absl::Span<const int32_t> blocks) {
    for (const int32_t block : blocks) {
      DS_CHECK(users_[block] > 0);
      ++users_[block];
    }
  }

  // A user gives them up. Returns how many are free now.
  int64_t Release(absl::Span<const int32_t> blocks) {
    const int64_t before = num_free();
    for (size_t i = blocks.size(); i-- > 0;) {
      DS_CHECK(users_[blocks[i]] > 0);
      if (--users_[blocks[i]] == 0) free_.push_back(blocks[i]);
    }
    return num_free() - before;
  }

 private:
  std::vector<int32_t> free_;  // the next one last
  std::vector<int32_t> users_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BLOCK_ALLOCATOR_H_
