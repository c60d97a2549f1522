// T5's biases of attention by relative position (schema/relative_bucket.h), as
// kernels take them.
#ifndef DEEPSLICE_KERNELS_CUDA_RELATIVE_BIAS_H_
#define DEEPSLICE_KERNELS_CUDA_RELATIVE_BIAS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "schema/base/dtype.h"

namespace deepslice {

// A weight [heads, buckets] of `type`.
struct RelativeBiasShape {
  DType type = DType::kF32;
  int64_t buckets = 0, max_distance = 0;
};

// "RelativeBias<float, 32, true, 9, 12, 16, ...>": the template argument of
// relative_bias.cuh, with the distances at which RelativeBucket, whose
// preconditions hold, goes on to the next bucket. None where there are more
// buckets than a kernel compares with.
std::optional<std::string> RelativeBiasArg(const RelativeBiasShape& shape,
                                           bool both_directions);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_RELATIVE_BIAS_H_
