// Which pieces of the arena buffers lie in: those that are never alive together
// share one.
#ifndef DEEPSLICE_COMPILER_SLOT_POOL_H_
#define DEEPSLICE_COMPILER_SLOT_POOL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace deepslice {

struct ScheduledDim {
  std::string name;  // "T", "R", "S", "B", on a GPU also "Q"
  int64_t maximum;
};

// An offset-free piece of the arena: bytes_per_unit bytes for each of the named
// dim's units (dim >= 0), or that many bytes once (dim < 0).
struct ScheduledSlot {
  int dim = -1;
  int64_t bytes_per_unit = 0;
};

// Bytes of all slots with every named dim at `extents`, each slot rounded up to
// kSlotAlignment.
int64_t ArenaBytes(const std::vector<ScheduledSlot>& slots,
                   const std::vector<int64_t>& extents);
// The same with every named dim at its maximum.
int64_t ArenaBytes(const std::vector<ScheduledSlot>& slots,
                   const std::vector<ScheduledDim>& dims);

// Hands out slots over time: a freed slot of the same dim is taken again, the
// smallest that is large enough; where none is, the one that grows least.
class SlotPool {
 public:
  explicit SlotPool(std::vector<ScheduledSlot>* slots) : slots_(*slots) {}

  int Take(const ScheduledSlot& need);
  void Give(int slot) { free_.push_back(slot); }

 private:
  std::vector<ScheduledSlot>& slots_;
  std::vector<int> free_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_SLOT_POOL_H_
