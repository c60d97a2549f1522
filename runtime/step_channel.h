// Carries each step's batch from rank 0 to the ranks above it, in frames that
// both sides check: ranks that disagree stop with an error and never hang.
#ifndef DEEPSLICE_RUNTIME_STEP_CHANNEL_H_
#define DEEPSLICE_RUNTIME_STEP_CHANNEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/comm/comm.h"
#include "runtime/executor.h"

namespace deepslice {

// The ceilings that all ranks must share, as one number.
uint64_t StepShapeDigest(const Executor& executor);

// A frame is a header of 64 bytes, then for a step the body, both
// little-endian:
//   0  u32 magic "DSst"    4  u32 kind: 1 step, 2 stop
//   8  u64 step number    16  u64 StepShapeDigest
//  24  u64 XXH3-64 of the body
//  32  u32 tokens         36  u32 block table entries    40  u32 rows
//  44  zero
// The body is i32 ids, positions, slots, block table and rows, in this order.
// Each is one broadcast, long bodies several. All memory is taken when made.
class StepChannel {
 public:
  // `comm` must outlive it.
  StepChannel(const Executor& executor, Comm* comm);

  // Rank 0. Errors are the comm's.
  absl::Status SendStep(const StepBatch& batch);
  absl::Status SendStop();
  // Ranks above 0: true and the batch (valid until the next call), or false
  // when rank 0 stops. Aborted, naming both values, for a frame that does not
  // fit: other ceilings, a step out of turn, damaged bytes.
  absl::StatusOr<bool> Receive(StepBatch* batch);

 private:
  absl::Status Check(uint32_t kind) const;
  absl::Status BroadcastBody(int64_t bytes);

  Comm* const comm_;
  const uint64_t shape_;
  const int64_t max_tokens_;
  const int64_t table_size_;
  const int64_t max_batch_;
  uint64_t step_ = 0;
  std::vector<uint8_t> header_;
  std::vector<int32_t> body_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_STEP_CHANNEL_H_
