// What ranks do together over device memory, as work of a stream. The host's
// side of it, steps and their errors, is a Comm.
#ifndef DEEPSLICE_RUNTIME_COMM_DEVICE_COMM_H_
#define DEEPSLICE_RUNTIME_COMM_DEVICE_COMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "schema/base/dtype.h"

// As the driver's headers name it: a pointer whose target is the driver's own.
typedef struct CUstream_st* CUstream;

namespace deepslice {

// Each call adds work to `stream` and returns; all ranks must make the same
// calls in the same order. All calls allocate nothing and may be captured into
// a graph, which is then launched by all ranks in the same order. All ranks get
// the same bits. For one thread at a time, but for Check and Abort.
class DeviceComm {
 public:
  virtual ~DeviceComm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // out[i] = sum over ranks of in[i]; `out` may be `in`. kF32, kF16, kBF16.
  virtual absl::Status AllReduceSum(const void* in, void* out, int64_t count,
                                    DType type, CUstream stream) = 0;
  // out[r * count_per_rank + i] = rank r's in[i]; `in` may be this rank's part
  // of `out`, else they do not overlap.
  virtual absl::Status AllGather(const void* in, void* out,
                                 int64_t count_per_rank, DType type,
                                 CUstream stream) = 0;
  // Rank 0's bytes to all, in place.
  virtual absl::Status Broadcast(void* data, int64_t bytes,
                                 CUstream stream) = 0;

  // Whether the ranks are still together; Aborted or Unavailable, naming the
  // root cause, when they are not. Cheap: whoever waits for a stream asks again
  // and again between queries of it, because work of a lost rank never ends.
  // Once it has failed, so does every later call.
  virtual absl::Status Check() = 0;
  // Tells the others why this rank leaves, and frees its own streams from work
  // that waits for them.
  virtual void Abort(const absl::Status& why) = 0;

  // Device memory that it allocated itself.
  virtual int64_t device_bytes() const { return 0; }
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_DEVICE_COMM_H_
