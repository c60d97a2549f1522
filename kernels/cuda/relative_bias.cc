#include "kernels/cuda/relative_bias.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/kernel_spec.h"
#include "schema/base/check.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

constexpr size_t kMostComparisons = 128;

}  // namespace

std::optional<std::string> RelativeBiasArg(const RelativeBiasShape& s,
                                           bool both_directions) {
  DS_CHECK(AreRelativeBuckets(s.buckets, s.max_distance, both_directions));
  int64_t bucket = 0, near = 1;
  std::vector<int64_t> from;
  for (int64_t d = 1; d <= s.max_distance; ++d) {
    const int64_t next =
        RelativeBucket(-d, s.buckets, s.max_distance, both_directions);
    if (next < bucket) return std::nullopt;
    if (next == d && near == d) {
      near = d + 1;
      bucket = next;
    }
    for (; bucket < next; ++bucket) from.push_back(d);
  }
  if (from.size() > kMostComparisons) return std::nullopt;
  std::string text = absl::StrCat("RelativeBias<", CudaTypeName(s.type), ", ",
                                  s.buckets, ", ");
  absl::StrAppend(&text, both_directions ? "true" : "false", ", ", near);
  for (const int64_t d : from) absl::StrAppend(&text, ", ", d);
  return text + ">";
}

}  // namespace deepslice
