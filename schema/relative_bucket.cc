#include "schema/relative_bucket.h"

#include <algorithm>
#include <cmath>

namespace deepslice {

bool AreRelativeBuckets(int64_t buckets, int64_t max_distance,
                        bool both_directions) {
  const int64_t exact = (both_directions ? buckets / 2 : buckets) / 2;
  return exact >= 1 && max_distance > exact &&
         max_distance <= kMostRelativeDistance;
}

int64_t RelativeBucket(int64_t relative, int64_t buckets, int64_t max_distance,
                       bool both_directions) {
  int64_t first = 0;
  int64_t distance = std::max<int64_t>(0, -relative);
  if (both_directions) {
    buckets /= 2;
    first = relative > 0 ? buckets : 0;
    distance = std::abs(relative);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const float over =
      std::log(static_cast<float>(distance) / exact) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const auto far =
      exact + static_cast<int64_t>(over * static_cast<float>(buckets - exact));
  return first + std::min(buckets - 1, far);
}

}  // namespace deepslice
