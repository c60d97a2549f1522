// T5's buckets of relative positions: near ones one by one, far ones by the
// logarithm of their distance.
#ifndef DEEPSLICE_SCHEMA_RELATIVE_BUCKET_H_
#define DEEPSLICE_SCHEMA_RELATIVE_BUCKET_H_

#include <cstdint>

namespace deepslice {

// The most that `max_distance` may be: kernels keep a bias for each distance.
inline constexpr int64_t kMostRelativeDistance = 4096;

// Whether RelativeBucket is defined: at least one bucket for near distances
// and one for far ones, of each direction where there are two.
bool AreRelativeBuckets(int64_t buckets, int64_t max_distance,
                        bool both_directions);

// The bucket, in [0, buckets), of a key `relative` places behind (< 0) or
// ahead (> 0) of the query. With both directions the upper half of the buckets
// is for keys ahead; else keys ahead count as the query's own place. In float
// steps, as it is published. All distances from max_distance on share a
// bucket.
int64_t RelativeBucket(int64_t relative, int64_t buckets, int64_t max_distance,
                       bool both_directions);

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_RELATIVE_BUCKET_H_
