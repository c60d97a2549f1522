// A DeviceComm over NCCL that waits for nobody longer than it was told to, and
// whose ranks end together.
#ifndef DEEPSLICE_RUNTIME_COMM_NCCL_NCCL_COMM_H_
#define DEEPSLICE_RUNTIME_COMM_NCCL_NCCL_COMM_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/backend/cuda/gpu_api.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"

namespace deepslice {

struct NcclOptions {
  // How long the ranks may take to come together.
  absl::Duration init_timeout = absl::Seconds(60);
  // How often the watchdog looks whether all are there.
  absl::Duration watch_every = absl::Milliseconds(20);
  // How long a tear-down or an abort may hang in the library.
  absl::Duration leave_timeout = absl::Seconds(3);
  // Called once, on a thread of its own, when the ranks have been apart for
  // `leave_timeout` and this communicator still exists: the process waits for
  // the device where nothing can wake it, perhaps inside a call of the
  // communicator's, and should end. Null: it ends with
  // the exit code of a lost rank.
  std::function<void(const absl::Status& why)> on_stuck;
};

// Meets the other ranks of `host` and makes the communicator on the device of
// the current context. `nccl` and `host` must outlive it; `host` may be used by
// its owner at the same time. DeadlineExceeded when the ranks do not come
// together; else what ended one of them. A lost rank, an error of NCCL and an
// Abort of another rank abort the communicator: its kernels end, Check and all
// calls fail with the root cause as `host` knows it.
// Streams must be idle, and graphs that captured its work gone, before it is
// destroyed.
absl::StatusOr<std::unique_ptr<DeviceComm>> ConnectNccl(
    const NcclApi& nccl, Comm* host, const NcclOptions& options = {});

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_NCCL_NCCL_COMM_H_
