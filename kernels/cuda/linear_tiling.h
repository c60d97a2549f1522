// How a linear layer is cut for linear_mma.cuh: the numbers that may differ
// between shapes without changing what is computed.
#ifndef DEEPSLICE_KERNELS_CUDA_LINEAR_TILING_H_
#define DEEPSLICE_KERNELS_CUDA_LINEAR_TILING_H_

#include <cstdint>

#include "kernels/cuda/linear.h"

namespace deepslice {

struct LinearTiling {
  int tiles = 1;       // a block makes 16 * tiles rows of w
  int warps = 8;       // of a block; they share out k
  int unroll = 2;      // chunks of 32 columns of w in a step of a warp
  int stages = 3;      // steps in flight
  int cluster = 1;     // blocks that share out k
  int registers = 64;  // most of a thread
};

// Whether linear_mma.cuh can take the shape: 16-bit types whose rows start on
// 16 bytes, and at least 16 rows of w.
bool LinearMmaFits(const LinearShape& shape);
// The best by a model of what the card's memory and its L2 deliver. For shapes
// that LinearMmaFits.
LinearTiling ChooseLinearTiling(const LinearShape& shape,
                                const GpuTarget& target);
// Dynamic shared memory of a block.
int64_t LinearMmaShared(const LinearShape& shape, const LinearTiling& tiling);
// The instance with this tiling, which must have 16 * tiles <= out, a ring of
// at most ceil(in / (32 * cluster * warps * unroll)) stages, and clusters only
// for hopper().
KernelSpec SpecializeLinearMma(const LinearShape& shape,
                               const GpuTarget& target,
                               const LinearTiling& tiling);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_LINEAR_TILING_H_
