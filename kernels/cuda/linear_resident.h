// How a linear layer is cut for linear_resident.cuh, a kernel on trial: the GPU
// check times it beside linear_mma.cuh, SpecializeLinear does not choose it.
#ifndef DEEPSLICE_KERNELS_CUDA_LINEAR_RESIDENT_H_
#define DEEPSLICE_KERNELS_CUDA_LINEAR_RESIDENT_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/linear.h"

namespace deepslice {

struct ResidentTiling {
  int tiles = 2;      // a cluster makes 16 * tiles rows of w at a time
  int warps = 8;      // of a block; they share out its part of k
  int unroll = 2;     // chunks of 32 columns of w in a step of a warp
  int stages = 3;     // steps in flight
  int cluster = 4;    // blocks that share out k
  int clusters = 32;  // that share out the rows
};

// Clusters of so many blocks that run at once where a block fills an SM.
int ResidentClusters(const GpuTarget& target, int cluster);
// Whether x fits the registers and all else the shared memory, with at least
// one stage; for shapes that LinearMmaFits.
bool LinearResidentFits(const LinearShape& shape, const GpuTarget& target,
                        const ResidentTiling& tiling);
// Dynamic shared memory of a block.
int64_t LinearResidentShared(const LinearShape& shape,
                             const ResidentTiling& tiling);
// The tiling with the deepest ring that fits and is of use, of `clusters` as
// ResidentClusters; nullopt where there is none of two stages.
std::optional<ResidentTiling> DeepestResident(const LinearShape& shape,
                                              const GpuTarget& target,
                                              ResidentTiling tiling);
// The tiling to begin measurements with; nullopt where x is little or does not
// fit. No step uses it yet: see kernels/PERFORMANCE.md.
std::optional<ResidentTiling> ChooseResident(const LinearShape& shape,
                                             const GpuTarget& target);
// The instance with this tiling, which fits.
KernelSpec SpecializeLinearResident(const LinearShape& shape,
                                    const GpuTarget& target,
                                    const ResidentTiling& tiling);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_LINEAR_RESIDENT_H_
