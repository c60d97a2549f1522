#include "runtime/comm/call.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace deepslice {

std::string CallText(uint64_t word) {
  const int64_t amount = word & ((uint64_t{1} << 60) - 1);
  switch (KindOfCall(word)) {
    case CallKind::kAllReduce:
      return absl::StrCat("all_reduce of ", amount, " floats");
    case CallKind::kAllGather:
      return absl::StrCat("all_gather of ", amount, " floats");
    case CallKind::kBroadcast:
      return absl::StrCat("broadcast of ", amount, " bytes");
    case CallKind::kBarrier:
      return "barrier";
  }
  return "an unknown call";
}

absl::Status CallsDiffer(uint32_t meeting, int rank_a, uint64_t a, int rank_b,
                         uint64_t b) {
  return absl::AbortedError(
      absl::StrCat("ranks disagree at meeting ", meeting, ": rank ", rank_a,
                   " calls ", CallText(a), ", rank ", rank_b, " ", CallText(b),
                   "; their plans or step headers differ"));
}

void ScatterColumns(const float* flat, int64_t begin, int64_t end, int64_t part,
                    int64_t column, int64_t total, float* out) {
  while (begin < end) {
    const int64_t row = begin / part, at = begin % part;
    const int64_t n = std::min(part - at, end - begin);
    std::memcpy(out + row * total + column + at, flat, n * sizeof(float));
    flat += n;
    begin += n;
  }
}

}  // namespace deepslice
