// Times on the device: the steps of a program one by one, and what the memory
// can give.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_STEP_TIMER_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_STEP_TIMER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu_steps.h"
#include "runtime/backend/cuda/kernel_table.h"
#include "runtime/executor.h"

namespace deepslice {

class StepTimer {
 public:
  // For programs of at most `most_steps`.
  static absl::StatusOr<std::unique_ptr<StepTimer>> Make(const GpuContext& gpu,
                                                         size_t most_steps);
  // Around a program: before its first step, after each, and when the stream is
  // idle again.
  absl::Status Begin(CUstream stream);
  absl::Status Mark(CUstream stream);
  absl::Status End(const GpuStepList& list);

  std::vector<Executor::StepTiming> Take() {
    return std::exchange(timings_, {});
  }

 private:
  explicit StepTimer(const GpuContext& gpu) : gpu_(gpu) {}

  const GpuContext& gpu_;
  GpuEvent origin_;  // where the first timed program began
  bool begun_ = false;
  std::vector<GpuEvent> marks_;
  size_t next_ = 0;
  std::vector<Executor::StepTiming> timings_;
};

// Bytes a second that the service kernel "read_bandwidth" reads, the best of
// several runs over memory that no cache holds. Unimplemented when the target
// has no such kernel.
absl::StatusOr<double> MeasureBandwidth(const GpuContext& gpu,
                                        const KernelTable& kernels,
                                        CUstream stream);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_STEP_TIMER_H_
