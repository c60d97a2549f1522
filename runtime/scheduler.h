// Which tokens run in the next step: admits sequences into slots, gives each
// its cache blocks, and lays out one ragged batch after another.
#ifndef DEEPSLICE_RUNTIME_SCHEDULER_H_
#define DEEPSLICE_RUNTIME_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/block_allocator.h"
#include "runtime/executor.h"

namespace deepslice {

// What a scheduler must know of the executor that runs its steps.
struct ScheduleLimits {
  int64_t max_batch = 0;
  int64_t max_step_tokens = 0;
  int64_t blocks_per_seq = 0;
  int64_t num_blocks = 0;
  int64_t block_tokens = 0;

  static ScheduleLimits Of(const Executor& executor);
};

// Sequences wait in the order of Add and are admitted first come, first served,
// each with all the blocks that it can ever need, so that none runs out
// halfway. Next and Append allocate nothing.
class Scheduler {
 public:
  enum class Mode {
    // One row of logits per sequence and round of tokens; sequences that only
    // lack their newest token go first, prompts fill what is left of the step.
    kGenerate,
    // A row for every token, in the order of sequences and positions.
    kScore,
  };
  explicit Scheduler(const ScheduleLimits& limits, Mode mode);

  // Adds a sequence of these tokens that will grow to `total` at most (the last
  // one is never run in kGenerate, so it needs no place in the cache). The
  // caller has checked them against the limits. Returns its number: 0, 1, ...
  int Add(const std::vector<int32_t>& tokens, int64_t total);

  // A row of the step's logits: whose it is, and the position of its token.
  struct Row {
    int sequence;
    int64_t position;
  };
  // The next step, valid until the next call; false when no token is left to
  // run.
  // In kScore a sequence ends by itself, in kGenerate by Finish.
  bool Next(StepBatch* batch);
  absl::Span<const Row> rows() const { return rows_; }

  // A new last token for an active sequence all of whose tokens have run; may be
  // ~r, as in StepBatch::ids.
  void Append(int sequence, int32_t token);
  // Frees slot and blocks.
  void Finish(int sequence);
  int64_t length(int sequence) const {
    return static_cast<int64_t>(sequences_[sequence].tokens.size());
  }

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    int64_t cached = 0;  // leading tokens that have run
    int64_t num_blocks = 0;
    int slot = -1;

    int64_t pending() const {
      return static_cast<int64_t>(tokens.size()) - cached;
    }
  };

  void Admit();
  void Emit(int sequence, int64_t count);
  int32_t* BlockRow(int slot) {
    return &block_table_[slot * limits_.blocks_per_seq];
  }

  const ScheduleLimits limits_;
  const Mode mode_;
  std::vector<Sequence> sequences_;
  int next_waiting_ = 0;
  std::vector<int> active_;      // admitted, oldest first
  std::vector<int> free_slots_;  // the lowest last
  size_t decode_start_ = 0;  // where in active_ the next decode round begins
  BlockAllocator blocks_;
  std::vector<int32_t> ids_, positions_, slots_, block_table_, row_tokens_;
  std::vector<Row> rows_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_SCHEDULER_H_
