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
  bool horizons_are_prompts = false;  // see StepBatch
  int64_t max_source_tokens = 0;  // of an encoder beside the decoder

  static ScheduleLimits Of(const Executor& executor);
};

// Sequences that begin with one prompt are a group: its first one runs the
// prompt, the others fork from it, or from each other, and share the full
// blocks that they have in common. A fork runs its tokens in the last, partly
// filled block again, into one of its own: nothing copies cache.
//
// Groups wait in the order of Add and are admitted first come, first served,
// with all the slots and blocks that they can ever need, so that none runs out
// halfway, and memory for their tokens: else Next and Append allocate nothing.
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

  // Adds a group of `width` sequences at once, each of which will grow to
  // `total` tokens at most (the last one is never run in kGenerate, so it needs
  // no place in the cache). The caller has checked them against the limits.
  // Returns the number of its first sequence, which has these tokens; the
  // others follow. `source` (at most max_source_tokens) is what an encoder
  // reads before the first of them runs, for all of the group.
  int Add(const std::vector<int32_t>& tokens, int64_t total, int width = 1,
          const std::vector<int32_t>& source = {});
  // Whether a group of `width` can ever be admitted.
  bool Fits(int64_t prompt, int64_t total, int width) const;

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

  // A new last token for an active sequence whose row of logits is there; may
  // be ~r, as in StepBatch::ids.
  void Append(int sequence, int32_t token);
  // Another sequence of the group, with the tokens of `parent`, all of which
  // are ids: both wait for Append. Fewer than `width` are active.
  int Fork(int parent);
  // Ends an active sequence; a fork may take its place.
  void Drop(int sequence);
  // Ends an active sequence for good.
  void Finish(int sequence);
  // Ends what is active of its group, and nothing of it will be.
  void FinishGroup(int sequence);

 private:
  struct Sequence {
    std::vector<int32_t> tokens;  // of one that waits: its prompt alone
    int64_t cached = 0;           // leading tokens that have run
    int slot = -1;                // -1: not active
    int group = 0;
    bool waits = false;  // for Append
    bool finished = false;

    int64_t pending() const {
      return static_cast<int64_t>(tokens.size()) - cached;
    }
  };
  struct Group {
    int first, width;
    int64_t shared_blocks;  // full ones of the prompt, in every sequence
    int64_t blocks;         // of each sequence
    int64_t total;          // tokens of each
    int64_t prompt;         // of them at the start
    int most_live;          // sequences at once, from now on
    int live = 0;
    int64_t held = 0;  // different blocks
    std::vector<int32_t> source;
    int source_slot = -1;      // while admitted
    bool source_runs = false;  // in this step or an earlier one

    // Blocks of `n` sequences at most.
    int64_t Most(int64_t n) const {
      return n == 0 ? 0 : shared_blocks + n * (blocks - shared_blocks);
    }
  };

  Group MakeGroup(int64_t prompt, int64_t total, int width) const;
  void Admit();
  void Activate(int sequence);
  void Deactivate(int sequence);
  void Emit(int sequence, int64_t count);
  // Puts sources of admitted groups into the step, as far as it has room.
  void EmitSources();
  bool CanRun(int sequence) const {
    const Group& g = groups_[sequences_[sequence].group];
    return g.source.empty() || g.source_runs;
  }
  void ReleaseSource(Group* g);
  int32_t* BlockRow(int slot) {
    return &block_table_[slot * limits_.blocks_per_seq];
  }

  const ScheduleLimits limits_;
  const Mode mode_;
  std::vector<Sequence> sequences_;
  std::vector<Group> groups_;
  size_t next_waiting_ = 0;  // of groups_
  // Of admitted groups: what they may still take.
  int64_t promised_blocks_ = 0, promised_slots_ = 0;
  std::vector<int> active_;      // admitted, oldest first
  std::vector<int> free_slots_;  // the lowest last
  size_t decode_start_ = 0;  // where in active_ the next decode round begins
  BlockAllocator blocks_;
  std::vector<int32_t> ids_, positions_, slots_, block_table_, row_tokens_;
  std::vector<int32_t> horizons_;  // by slot
  std::vector<int> free_sources_;
  std::vector<int32_t> source_ids_, source_positions_, source_slots_;
  std::vector<int32_t> sources_;  // by slot, as in StepBatch
  std::vector<Row> rows_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_SCHEDULER_H_
