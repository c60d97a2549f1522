// Biases by relative position, spread out so that a distance is an index.
#include <algorithm>

#include "kernels/attention_cpu.h"
#include "schema/base/checked_math.h"
#include "schema/base/dtype.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

float Element(const CpuOperand& o, int64_t i) {
  if (o.encoding == Encoding::kF32) return o.f32()[i];
  const uint16_t bits = static_cast<const uint16_t*>(o.data)[i];
  return o.encoding == Encoding::kF16 ? F16ToFloat(bits) : BF16ToFloat(bits);
}

}  // namespace

int64_t RelativeBytes(int64_t heads, int64_t max_distance) {
  if (max_distance == 0) return 0;
  constexpr int64_t kAlign = 64;
  return RoundUp(
      heads * (2 * max_distance + 1) * static_cast<int64_t>(sizeof(float)),
      kAlign);
}

const float* TakeRelative(const CpuOperand& rel_bias, int64_t heads,
                          int64_t max_distance, bool both_directions,
                          char** scratch) {
  float* relative = reinterpret_cast<float*>(*scratch);
  *scratch += RelativeBytes(heads, max_distance);
  const int64_t buckets = rel_bias.cols;
  for (int64_t d = -max_distance; d <= max_distance; ++d) {
    const int64_t bucket =
        RelativeBucket(d, buckets, max_distance, both_directions);
    for (int64_t h = 0; h < heads; ++h) {
      relative[h * (2 * max_distance + 1) + max_distance + d] =
          Element(rel_bias, h * buckets + bucket);
    }
  }
  return relative;
}

}  // namespace deepslice
