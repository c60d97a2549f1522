// Sequences that a caller feeds by itself: what each holds, its blocks of the
// cache, and the steps that a feed becomes.
#ifndef DEEPSLICE_RUNTIME_API_STEP_SEQUENCES_H_
#define DEEPSLICE_RUNTIME_API_STEP_SEQUENCES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/block_allocator.h"
#include "runtime/executor.h"
#include "runtime/scheduler.h"

namespace deepslice {

// Sequence s is slot s of the executor's batch; max_batch of them.
class StepSequences {
 public:
  enum class Rows { kLast, kAll, kNone };
  struct Feed {
    int64_t sequence = 0;
    absl::Span<const int32_t> ids;
    Rows rows = Rows::kLast;
  };
  // Runs a step; its logits, [rows, vocab], valid until the next.
  using RunStep = std::function<absl::StatusOr<const float*>(const StepBatch&)>;

  StepSequences(const ScheduleLimits& limits, int64_t max_seq_len,
                int64_t vocab);

  // Appends the feeds' ids to their sequences and the rows that they want to
  // *logits, in as few steps as hold them. InvalidArgument (no such sequence,
  // one twice, no ids, ids out of range, too long) and ResourceExhausted (no
  // block of the cache left) before anything runs, and then nothing changes.
  absl::Status Run(absl::Span<const Feed> feeds, const RunStep& run,
                   std::vector<float>* logits);
  // Cuts a sequence to its first `length` tokens.
  absl::Status Truncate(int64_t sequence, int64_t length);
  // -1: no such sequence.
  int64_t length(int64_t sequence) const;

 private:
  absl::Status Check(absl::Span<const Feed> feeds) const;
  // Blocks for `length` tokens of each feed's sequence, or none.
  absl::Status TakeBlocks(absl::Span<const Feed> feeds);
  absl::Span<int32_t> Table(int64_t sequence) {
    return absl::MakeSpan(blocks_).subspan(sequence * limits_.blocks_per_seq,
                                           limits_.blocks_per_seq);
  }
  void KeepBlocks(int64_t sequence, int64_t count);
  absl::Status Flush(const RunStep& run, std::vector<float>* logits);

  const ScheduleLimits limits_;
  const int64_t max_seq_len_, vocab_;
  BlockAllocator allocator_;
  std::vector<int64_t> lengths_, taken_;  // tokens and blocks, by sequence
  // The step that is being filled.
  std::vector<int32_t> ids_, positions_, slots_, rows_, blocks_;
  // What a sequence may grow to is not known: as long as the run allows.
  std::vector<int32_t> horizons_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_STEP_SEQUENCES_H_
