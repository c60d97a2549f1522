// Numbers of the plan folder that its writer and its reader share.
#ifndef DEEPSLICE_SCHEMA_PLAN_FORMAT_H_
#define DEEPSLICE_SCHEMA_PLAN_FORMAT_H_

#include <cstdint>

namespace deepslice {

// Of plan.fbs and manifest.json. 0.x releases promise nothing to older plans.
inline constexpr uint32_t kPlanFormatVersion = 1;
// A weights file is hashed (XXH3-64) in blocks of this many bytes.
inline constexpr uint64_t kHashBlock = 1 << 20;
// Weights and scales start at multiples of this; the file's size is one of
// kSegment.
inline constexpr uint64_t kBlobAlignment = 256;
inline constexpr uint64_t kSegment = 4096;
// Slots of the arena start at multiples of this.
inline constexpr int64_t kSlotAlignment = 256;

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_PLAN_FORMAT_H_
