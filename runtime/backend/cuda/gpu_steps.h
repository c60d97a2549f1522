// A step program resolved for one run on a GPU: kernels, addresses and sizes,
// so that a step is a walk over a flat list.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_STEPS_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_STEPS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/gemm.h"
#include "runtime/backend/cuda/gpu_sizes.h"
#include "runtime/backend/cuda/kernel_table.h"
#include "runtime/comm/device_comm.h"
#include "runtime/plan.h"

namespace deepslice {

// Where a run's memory lies.
struct GpuAddresses {
  CUdeviceptr weights = 0, arena = 0, cache = 0;
  CUdeviceptr inputs = 0;  // the block that this step's inputs come in
  CUdeviceptr table = 0, sync = 0;
  CUdeviceptr sampled_before = 0, sampled = 0;  // by the last step, by this one
};

// A number of rows: fixed, or as many as a named dim has in the step.
struct GpuCount {
  int dim = -1;
  int64_t fixed = 0;
  int64_t Of(const std::vector<int64_t>& dims) const {
    return dim < 0 ? fixed : dims[dim];
  }
};

struct GpuGrid {
  int64_t times = 1, per_block = 1;
  int dim = -1;
};

struct GpuStep {
  enum class Kind { kLaunch, kGemm, kAllReduce, kAllGather, kBroadcast, kCopy };
  Kind kind = Kind::kLaunch;
  const fb::Step* from = nullptr;
  const fb::Kernel* kernel = nullptr;  // kLaunch

  // kLaunch.
  CUfunction function = nullptr;
  int first_param = 0;  // index into GpuStepList::param_pointers
  std::array<GpuGrid, 3> grid;
  std::array<unsigned, 3> block = {1, 1, 1};
  unsigned shared_bytes = 0;
  bool programmatic = false;

  // kGemm.
  int gemm = -1;  // index into Gemms
  CUdeviceptr weight = 0, residual = 0;

  // All but kLaunch. Rows of `in` and `out`, and the elements of a row: of `in`
  // for kAllGather.
  CUdeviceptr in = 0, out = 0;
  GpuCount rows;
  int64_t columns = 0;
  DType dtype = DType::kF32;
  int64_t gather_rows = 0;  // kAllGather: rows between the ranks' blocks

  // Of its first result, for observers; nullptr when it is no buffer.
  const fb::Buffer* result = nullptr;
  CUdeviceptr result_at = 0;
};

struct GpuStepList {
  const ProgramSizes* program = nullptr;
  std::vector<GpuStep> steps;
  std::vector<CUdeviceptr> params;
  std::vector<void*> param_pointers;  // into `params`
  std::vector<CUdeviceptr> outputs;   // of the program, in its order
};

// `gemms` gets the shapes of GEMM steps; it may be nullptr when there are none.
// Unimplemented, with the step's name, for what this back end doesn't run.
absl::StatusOr<GpuStepList> ResolveGpuSteps(
    const Plan& plan, const fb::Target& target, const ProgramSizes& program,
    const GpuSizes& sizes, const KernelTable& kernels, const GpuAddresses& at,
    Gemms* gemms);

// What steps run on.
struct GpuStepContext {
  const GpuContext* gpu = nullptr;
  Gemms* gemms = nullptr;
  DeviceComm* comm = nullptr;  // nullptr at world size 1
  CUstream stream = nullptr;
};

// Starts step `index` of the list. `dims` are the program's, of this step.
// Errors name the step: "step 17 (layers.3.qkv, linear_mma 4096x6144 t8): ...".
absl::Status StartGpuStep(const GpuStepContext& context,
                          const GpuStepList& list, int index,
                          const std::vector<int64_t>& dims);
// "step 17 (layers.3.qkv, linear_mma 4096x6144 t8)".
std::string GpuStepText(const GpuStepList& list, int index);
// "linear_mma", "gemm", "all_reduce": for tables of times.
std::string GpuStepKind(const GpuStep& step);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_STEPS_H_
