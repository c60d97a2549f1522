// The GPU back end: one rank of a plan on one device.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_CUDA_EXECUTOR_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_CUDA_EXECUTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gemm_tuner.h"
#include "runtime/backend/cuda/gpu_api.h"
#include "runtime/backend/cuda/kernel_table.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/executor.h"
#include "runtime/plan.h"

namespace deepslice {

struct CudaOptions {
  int device = 0;  // as the driver counts those that the process sees
  // The ranks' host side, which carries rank 0's choices of algorithms; nullptr
  // at world size 1. Must outlive the executor.
  Comm* comm = nullptr;
  // Connects the ranks' device side when the context is current and the kernels
  // are loaded; called once, not at world size 1.
  std::function<absl::StatusOr<std::unique_ptr<DeviceComm>>(
      const GpuContext& gpu, const KernelTable& kernels)>
      connect;
  int threads = 8;  // that read weights
  // Bytes of weights that were read and checked, and all of them; by one thread
  // at a time; may be empty.
  std::function<void(int64_t done, int64_t all)> loaded;
  std::string cache_folder;  // of choices between runs; "": none
  // What tuning at the first load may take; 0: the heuristic's choices.
  double tune_seconds = 0.4;
  bool use_graphs = true;
  // Waits after each step, so that an error that the device reports late is
  // told with the step's name. Without graphs.
  bool sync_steps = false;
};

class CudaExecutor : public Executor {
 public:
  // Tunes longer than the first load does and keeps the choices, or says why it
  // can't. At world size above 1 they serve from the next start on.
  virtual absl::Status Tune(const TuneOptions& options) = 0;
  virtual const DeviceInfo& device() const = 0;
  virtual absl::string_view target() const = 0;  // "sm_90a"
};

// Takes all memory, loads kernels and weights (whose blocks are checked here:
// the plan may be loaded without check_weights), connects the ranks, chooses
// algorithms. The tables of `apis` and `plan` must outlive it; apis.cublaslt
// may be null when LoadCublasLt is to be asked. FailedPrecondition when the
// machine or the device does not fit the plan, ResourceExhausted with numbers,
// DataLoss for damaged weights and kernels.
absl::StatusOr<std::unique_ptr<CudaExecutor>> PrepareCuda(
    const GpuApis& apis, const Plan& plan, const RunLimits& limits,
    const CudaOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_CUDA_EXECUTOR_H_
