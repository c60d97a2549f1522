// A DeviceComm that moves small messages with one kernel over memory that the
// ranks of a host map from each other, and leaves the rest to another one.
#ifndef DEEPSLICE_RUNTIME_COMM_NCCL_ONE_SHOT_H_
#define DEEPSLICE_RUNTIME_COMM_NCCL_ONE_SHOT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/gpu_api.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"

namespace deepslice {

// The service kernels "all_reduce_one_shot f32|f16|bf16", loaded: parameters
// (in, out, int64 count, OneShotArgs), 512 threads a block.
struct OneShotKernels {
  CUfunction f32 = nullptr, f16 = nullptr, bf16 = nullptr;
};

struct OneShotOptions {
  // Messages of at most so many bytes a rank go this way; 0: none. Rank 0's
  // value counts. Below 0: what DEEPSLICE_ONE_SHOT_BYTES says, else where the
  // kernel is faster than NCCL, by world size.
  int64_t max_bytes = -1;
  // Launched as LaunchStep::programmatic says; for kernels that were compiled
  // for 9.0 or above, since others don't wait for the step before.
  bool programmatic = false;
};

// Where the kernel is faster; 0 when there are more ranks than the kernel
// takes.
int64_t OneShotBytes(int world);

// Takes over `inner`, and returns it as it is where the ranks can't map each
// other's memory, or there is no kernel, or nothing is to go this way. A
// context must be current. All ranks of `host` call it together. Errors: lack
// of memory, a lost rank. A sum is the ranks' values in float, in rank order,
// rounded once.
absl::StatusOr<std::unique_ptr<DeviceComm>> AddOneShot(
    std::unique_ptr<DeviceComm> inner, const CudaApi& cuda,
    const OneShotKernels& kernels, Comm* host,
    const OneShotOptions& options = {});

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_NCCL_ONE_SHOT_H_
