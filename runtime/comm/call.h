// What a rank asks for in one collective call, as one word that ranks compare.
#ifndef DEEPSLICE_RUNTIME_COMM_CALL_H_
#define DEEPSLICE_RUNTIME_COMM_CALL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace deepslice {

enum class CallKind : uint8_t { kAllReduce, kAllGather, kBroadcast, kBarrier };

// `amount`: floats, or bytes of a broadcast.
inline uint64_t CallWord(CallKind kind, int64_t amount) {
  return static_cast<uint64_t>(kind) << 60 |
         (static_cast<uint64_t>(amount) & ((uint64_t{1} << 60) - 1));
}
inline CallKind KindOfCall(uint64_t word) {
  return static_cast<CallKind>(word >> 60);
}
// "all_reduce of 20 floats".
std::string CallText(uint64_t word);
// Aborted: two ranks came to their n-th meeting with different calls.
absl::Status CallsDiffer(uint32_t meeting, int rank_a, uint64_t a, int rank_b,
                         uint64_t b);

// to[i] += from[i]. The one place where ranks' values are added.
inline void AddInto(float* to, const float* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// Puts the flat range [begin, end) of a rows x part matrix into columns
// [column, column + part) of a matrix of `total` columns.
void ScatterColumns(const float* flat, int64_t begin, int64_t end, int64_t part,
                    int64_t column, int64_t total, float* out);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_CALL_H_
