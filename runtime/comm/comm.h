// What ranks do together. One interface over threads of a process (local) and
// processes of a host (shm).
#ifndef DEEPSLICE_RUNTIME_COMM_COMM_H_
#define DEEPSLICE_RUNTIME_COMM_COMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace deepslice {

// The calls of all ranks must come in the same order. Sums are in rank order,
// so all ranks get the same bits at every call. Aborted or Unavailable, naming
// the root cause, when another rank is lost; then every later call fails too.
class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place over `count` floats. No allocation.
  virtual absl::Status AllReduceSum(float* data, int64_t count) = 0;
  // Every rank gives rows x part columns and gets rows x total columns, rank
  // r's part at [PartBegin(total, size, r), PartBegin(total, size, r + 1)).
  virtual absl::Status AllGatherColumns(const float* in, float* out,
                                        int64_t rows, int64_t total) = 0;
  // Rank 0's bytes to all; `bytes` is equal in all ranks.
  virtual absl::Status Broadcast(void* data, int64_t bytes) = 0;
  // Waits until all ranks are here.
  virtual absl::Status Barrier() = 0;
  // Tells the others why this rank leaves; their calls then fail with `why`.
  virtual void Abort(const absl::Status& why) = 0;
  // The error that a call would fail with because another rank is lost, seen
  // without meeting the others; OK while all are there. For any thread.
  virtual absl::Status Check() { return absl::OkStatus(); }
  // The step that this rank begins, for the message when it is lost.
  virtual void SetStep(int64_t step) {}
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_COMM_H_
