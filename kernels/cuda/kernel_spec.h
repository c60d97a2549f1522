// One instance of a CUDA kernel: which source with which literals, and how it
// is launched. Made by pure functions of shape and target (linear.h, rows.h,
// attention.h, service.h), compiled by compiler/jit, launched by
// runtime/backend/cuda.
#ifndef DEEPSLICE_KERNELS_CUDA_KERNEL_SPEC_H_
#define DEEPSLICE_KERNELS_CUDA_KERNEL_SPEC_H_

#include <array>
#include <cstdint>
#include <string>

#include "schema/base/dtype.h"

namespace deepslice {

// What a kernel may rely on. Memory-independent: the same for all cards of an
// architecture.
struct GpuTarget {
  std::string name;  // "sm_90a", "compute_80"
  int major = 0, minor = 0;
  bool ptx = false;  // compiled to PTX, for any card from this one on
  int num_sms = 132; // what grids are sized for: of the card named, else of the
                     // architecture's largest
  int64_t shared_bytes = 0;  // most dynamic shared memory of a block
  // Programmatic dependent launch, bulk copies: 9.0 and above.
  bool hopper() const { return major >= 9; }
};

// The count that a grid dimension follows. In programs of a bucket all are
// fixed, and kernels compare with StepInfo.
enum class CountDim : uint8_t {
  kNone,
  kTokens,
  kRows,
  kTiles,
  kImageTokens,
  kImages,
  kSourceTokens
};

// times * (dim == kNone ? 1 : ceil(count / per_block)) blocks.
struct GridExtent {
  int64_t times = 1;
  int64_t per_block = 1;
  CountDim dim = CountDim::kNone;
};

struct KernelSpec {
  std::string source;  // "linear_mma.cuh": a file of kernels/cuda
  // Name expression of a __global__ template instance:
  // "LinearMma<bf16, 4096, 6144, ...>". With source and target it is the key of
  // the compiled kernel.
  std::string entry;
  std::string label;  // "linear_mma 4096x6144 t8 rms", for people
  std::array<GridExtent, 3> grid;
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  bool programmatic = false;  // see LaunchStep::programmatic
};

// "float", "half_t", "bf16": the types of base.cuh.
std::string CudaTypeName(DType t);

// A source file of this folder by name, embedded; includes are resolved by the
// compiler among these alone.
struct EmbeddedKernelFile {
  const char* name;
  const char* text;
};
// Sorted by name.
extern const EmbeddedKernelFile kKernelFiles[];
extern const int kKernelFilesCount;

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_KERNEL_SPEC_H_
