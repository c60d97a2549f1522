// T5's biases of scores by relative position, as relative_bias.h names them.
#pragma once
#include "base.cuh"

// A head's row has kBuckets of B. Distances below kNear - 1 are buckets of
// their own; each of kFrom is where a further one begins. kBoth: the upper half
// of the row is for keys ahead, which else count as the query's own place.
template <typename B, int kBuckets, bool kBoth, int kNear, int... kFrom>
struct RelativeBias {
  static constexpr bool present = true;
  static constexpr int buckets = kBuckets;
  using Element = B;

  __device__ static int Bucket(int relative) {
    const int distance = kBoth && relative > 0 ? relative : max(-relative, 0);
    int bucket = min(distance, kNear - 1);
    ((bucket += distance >= kFrom ? 1 : 0), ...);
    return kBoth && relative > 0 ? bucket + kBuckets / 2 : bucket;
  }
  // What an exponent of 2 grows by. row: the head's; relative: the key's
  // position less the query's.
  __device__ static float Exponent(const B* row, int relative) {
    return ToFloat(row[Bucket(relative)]) * 1.44269504f;  // log2(e)
  }
};

// Nothing is added.
struct NoRelativeBias {
  static constexpr bool present = false;
  static constexpr int buckets = 0;
  using Element = float;
  __device__ static float Exponent(const float* row, int relative) { return 0; }
};
