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
//  44  u32 horizons       48  u32 source tokens          52  u32 image tokens
//  56  u32 images         60  u32 pixels
// The body is, of 4 bytes each, ids, positions, slots, block table, rows,
// horizons, types (of a program that reads them), source ids, positions and
// slots, sources (where the program has any), image positions, slots and rows,
// and pixels, in this order.
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
  absl::Status CheckCounts() const;
  absl::Status BroadcastBody(int64_t bytes);

  Comm* const comm_;
  const uint64_t shape_;
  const int64_t max_tokens_;
  const int64_t table_size_;
  const int64_t max_batch_;
  const bool has_types_;
  const int64_t max_source_tokens_;
  const int64_t max_image_tokens_;
  const int64_t patch_;  // pixels of one
  uint64_t step_ = 0;
  std::vector<uint8_t> header_;
  std::vector<int32_t> body_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_STEP_CHANNEL_H_
