// Kernels over the heads of rows: norms, products with weights of their own,
// heads put together from two parts.
#ifndef DEEPSLICE_KERNELS_CUDA_HEAD_ROWS_H_
#define DEEPSLICE_KERNELS_CUDA_HEAD_ROWS_H_

#include <cstdint>

#include "kernels/cuda/kernel_spec.h"
#include "schema/ops.h"

namespace deepslice {

// HeadNorm of ops.def; `each`: scale and bias are float[heads * head_dim], else
// float[head_dim]. Operands: x, scale, bias (or null). Outputs: y; may be x.
struct HeadNormShape {
  DType x, y;
  int64_t heads = 0, head_dim = 0, x_stride = 0, y_stride = 0;
  bool layer_norm = false, bias = false, each = false;
  double eps = 0;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeHeadNorm(const HeadNormShape& shape,
                              const GpuTarget& target);

// ConcatHeads of ops.def. Operands: a, b (of one type). Outputs: y.
struct ConcatHeadsShape {
  DType x, y;
  int64_t heads = 0, of_a = 0, of_b = 0;  // elements of a head
  int64_t a_stride = 0, b_stride = 0, y_stride = 0;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeConcatHeads(const ConcatHeadsShape& shape,
                                 const GpuTarget& target);

// HeadLinear of ops.def, sums in float. Operands: x, w. Outputs: y.
struct HeadLinearShape {
  DType x, weight, y;
  int64_t heads = 0, in = 0, out = 0;  // elements of a head
  int64_t x_stride = 0, y_stride = 0;
  bool transposed = false;  // w is [heads * in, out], else [heads * out, in]
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeHeadLinear(const HeadLinearShape& shape,
                                const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_HEAD_ROWS_H_
