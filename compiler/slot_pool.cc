#include "compiler/slot_pool.h"

#include <algorithm>

#include "schema/base/checked_math.h"
#include "schema/plan_format.h"

namespace deepslice {
namespace {

// Whether slot a serves `need` better than slot b.
bool Better(const ScheduledSlot& a, const ScheduledSlot& b,
            const ScheduledSlot& need) {
  const bool a_fits = a.bytes_per_unit >= need.bytes_per_unit;
  const bool b_fits = b.bytes_per_unit >= need.bytes_per_unit;
  if (a_fits != b_fits) return a_fits;
  return a_fits ? a.bytes_per_unit < b.bytes_per_unit
                : a.bytes_per_unit > b.bytes_per_unit;
}

}  // namespace

int64_t ArenaBytes(const std::vector<ScheduledSlot>& slots,
                   const std::vector<int64_t>& extents) {
  int64_t total = 0;
  for (const ScheduledSlot& s : slots) {
    total += RoundUp(s.bytes_per_unit * (s.dim < 0 ? 1 : extents[s.dim]),
                     kSlotAlignment);
  }
  return total;
}

int64_t ArenaBytes(const std::vector<ScheduledSlot>& slots,
                   const std::vector<ScheduledDim>& dims) {
  std::vector<int64_t> extents;
  for (const ScheduledDim& d : dims) extents.push_back(d.maximum);
  return ArenaBytes(slots, extents);
}

int SlotPool::Take(const ScheduledSlot& need) {
  int best = -1;
  for (size_t i = 0; i < free_.size(); ++i) {
    const ScheduledSlot& s = slots_[free_[i]];
    if (s.dim != need.dim) continue;
    if (best < 0 || Better(s, slots_[free_[best]], need)) best = i;
  }
  if (best < 0) {
    slots_.push_back(need);
    return static_cast<int>(slots_.size()) - 1;
  }
  const int slot = free_[best];
  free_.erase(free_.begin() + best);
  slots_[slot].bytes_per_unit =
      std::max(slots_[slot].bytes_per_unit, need.bytes_per_unit);
  return slot;
}

}  // namespace deepslice
