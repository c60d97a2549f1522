// What a run on a GPU holds, in the order in which it is taken: filled by
// PrepareCuda, used by the executor.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_CUDA_RUN_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_CUDA_RUN_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/backend/cpu/mapping.h"
#include "runtime/backend/cuda/cuda_executor.h"
#include "runtime/backend/cuda/gemm.h"
#include "runtime/backend/cuda/gpu_sizes.h"
#include "runtime/backend/cuda/gpu_steps.h"

namespace deepslice {

// A captured program; destroyed with its owner.
class GpuGraph {
 public:
  GpuGraph() = default;
  GpuGraph(const CudaApi* cuda, CUgraphExec exec) : cuda_(cuda), exec_(exec) {}
  ~GpuGraph() {
    if (exec_ != nullptr) cuda_->GraphExecDestroy(exec_);
  }
  GpuGraph(GpuGraph&& o) noexcept { *this = std::move(o); }
  GpuGraph& operator=(GpuGraph&& o) noexcept {
    std::swap(cuda_, o.cuda_);
    std::swap(exec_, o.exec_);
    return *this;
  }
  CUgraphExec get() const { return exec_; }

 private:
  const CudaApi* cuda_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

// Members are destroyed from the last to the first.
struct CudaRun {
  const Plan* plan = nullptr;
  const fb::Target* target = nullptr;
  std::unique_ptr<GpuContext> gpu;
  GpuSizes sizes;
  DeviceMemory weights, arena, cache, staging, workspace;
  // Pinned: two input blocks with a block table each, then two arrays of ids.
  PinnedMemory host;
  int64_t host_block_bytes = 0, host_ids_at = 0;
  Mapping logits;  // on the host, [R, vocab]; or an encoder's outputs
  KernelTable kernels;
  std::unique_ptr<DeviceComm> comm;  // nullptr at world size 1
  GpuStream stream, upload, download;
  std::unique_ptr<Gemms> gemms;  // nullptr without GEMM steps

  struct Program {
    // Steps of even and of odd number: their inputs and what they draw lie
    // apart, so that one is filled while the other runs.
    GpuStepList steps[2];
    GpuGraph graph[2];
    int runs = 0;
  };
  std::vector<Program> programs;  // as sizes.programs
  std::string gemm_cache_path;
  int64_t context_bytes = 0, modules_bytes = 0;
  double weights_seconds = 0;  // that bringing in the file's weights took

  CudaRun() = default;
  CudaRun(CudaRun&&) = default;

  char* host_block(int parity) const {
    return host.data() + parity * host_block_bytes;
  }
  int32_t* host_table(int parity) const {
    return reinterpret_cast<int32_t*>(host_block(parity) +
                                      sizes.input_block_bytes);
  }
  int32_t* host_ids(int parity) const {
    return reinterpret_cast<int32_t*>(
        host.data() + host_ids_at +
        parity * (sizes.sampled_at[1] - sizes.sampled_at[0]));
  }
};

absl::StatusOr<std::unique_ptr<CudaRun>> PrepareCudaRun(
    const GpuApis& apis, const Plan& plan, const RunLimits& limits,
    const CudaOptions& options);

// Times the general program's products on the memory of a run that is idle.
absl::Status TuneRun(CudaRun* run, const TuneOptions& options);
// Writes the choices to run.gemm_cache_path, for later runs. FailedPrecondition
// when there is no such place, or it can't be written.
absl::Status KeepChoices(const CudaRun& run);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_CUDA_RUN_H_
