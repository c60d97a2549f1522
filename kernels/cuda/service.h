// Kernels that the runtime launches by itself, found in a target by label.
#ifndef DEEPSLICE_KERNELS_CUDA_SERVICE_H_
#define DEEPSLICE_KERNELS_CUDA_SERVICE_H_

#include <string>
#include <vector>

#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

// Parameters are passed one by one, not by the rule of LaunchStep:
//  "fill_random f32|f16|bf16" (out, uint64 tensor key, int64 row_stride
//    (elements), rows, cols, rows_begin, cols_begin, float mean, float scale):
//    out[i * row_stride + j] = mean + scale * u(key, rows_begin + i,
//    cols_begin + j), u as in schema/synthetic.h. Grid-stride, 256 threads.
//  "read_bandwidth" (const uint4* data, int64 count, uint32* sink): reads all;
//    a grid of 4 blocks a multiprocessor, 512 threads.
//  "all_reduce_one_shot f32|f16|bf16" (see runtime/comm/nccl/one_shot.h).
// All that a target of this plan needs.
std::vector<KernelSpec> ServiceKernels(const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_SERVICE_H_
