// Runs the step programs of one rank on one back end: everything is allocated
// when it is prepared, nothing in Execute.
#ifndef DEEPSLICE_RUNTIME_EXECUTOR_H_
#define DEEPSLICE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/thread_pool.h"
#include "runtime/comm/comm.h"
#include "runtime/plan.h"
#include "schema/plan_format.h"

namespace deepslice {

// Ceilings of a run, at most the plan's; 0 means the plan's.
struct RunLimits {
  int64_t max_batch = 0;        // sequence slots (S)
  int64_t max_step_tokens = 0;  // T
  int64_t max_seq_len = 0;      // tokens of a sequence, so B and the cache
};

// One ragged step. Tokens of a sequence slot are contiguous, with ascending
// consecutive positions, continuing what the slot's cache holds; prefill,
// decode and mixtures are alike. Of a program of kind encode, and of sources
// and images, sequences are whole: positions begin at 0.
struct StepBatch {
  // [T]. Where the back end keeps_sampled(), ~r is the id that row r of the
  // step before drew.
  absl::Span<const int32_t> ids;
  absl::Span<const int32_t> positions;  // [T]
  absl::Span<const int32_t> slots;      // [T], in [0, max_batch)
  // [S * blocks_per_seq]: block table; empty for a plan without caches.
  absl::Span<const int32_t> blocks;
  absl::Span<const int32_t> rows;       // [R]: tokens whose logits are wanted
  // [R]: how each row draws its id, on rank 0's device; empty: no ids wanted.
  absl::Span<const SamplerRecord> samplers;
  // [S]: tokens that the slot's sequence may grow to, or those of its prompt
  // when horizons_are_prompts(), the same in all its steps; may be empty where
  // no step reads it.
  absl::Span<const int32_t> horizons;
  // [T]: token types, where a step reads them.
  absl::Span<const int32_t> types;
  // An encoder's tokens beside a decoder: [E], of sequences that begin in this
  // step; and [S * 2], for each slot the source slot that holds its keys and
  // how many they are (in this step or an earlier one).
  absl::Span<const int32_t> source_ids, source_positions, source_slots;
  absl::Span<const int32_t> sources;
  // Images: [P] positions (0: the class token, whose pixels are zeros) and
  // slots, [P * patch elements] pixels, and [I] the row of each image's class
  // token.
  absl::Span<const int32_t> image_positions, image_slots, image_rows;
  absl::Span<const float> pixels;
};

// An output of a program of kind encode.
struct NamedOutput {
  std::string name;  // as published: "last_hidden_state"
  enum class Of { kToken, kRow, kImage };
  Of of = Of::kToken;             // what a row of it is for
  int64_t rows = 0, cols = 0;
  const float* data = nullptr;
};

class Executor {
 public:
  // The CPU back end (the GPU's is made in backend/cuda/cuda_executor.h).
  // `plan`, `comm` (may be nullptr at world size 1) and `pool` must outlive it.
  // FailedPrecondition or ResourceExhausted, with numbers, when a limit exceeds
  // the plan's or memory is short.
  static absl::StatusOr<std::unique_ptr<Executor>> Prepare(
      const Plan& plan, const RunLimits& limits, Comm* comm, ThreadPool* pool);
  virtual ~Executor() = default;

  // Checks the batch (InvalidArgument: too many tokens, ids outside the
  // vocabulary, positions or blocks out of range), then runs every step.
  // May return before the device has finished; the calls below wait.
  virtual absl::Status Execute(const StepBatch& batch) = 0;
  // [R, vocab] of the last Execute, valid until the next.
  virtual absl::StatusOr<const float*> Logits() = 0;
  // What an Execute of a program of kind encode made, valid until the next;
  // FailedPrecondition for other programs.
  virtual absl::StatusOr<std::vector<NamedOutput>> Outputs() {
    return absl::FailedPreconditionError("the plan is no encoder");
  }
  // Whether the program is one of kind encode: no caches, no sampling.
  virtual bool encodes() const { return false; }
  // The ids that the samplers of the oldest Execute that was not asked for yet
  // drew, a row each, valid until the next call; kNoSampledId where logits hold
  // NaN or infinity. Every Execute with samplers is asked for once.
  virtual absl::StatusOr<absl::Span<const int32_t>> Sampled() = 0;
  // Whether ids may refer to what the step before sampled; then one more step
  // may be executed before Sampled is called, else none.
  virtual bool keeps_sampled() const { return false; }

  // Called after each step with the step's index and its output (float, rows x
  // cols); for verification. Empty to stop.
  using Observer = std::function<void(int step, const float* data, int64_t rows,
                                      int64_t cols)>;
  virtual void SetObserver(Observer observer) = 0;
  // The program that the last Execute ran, whose steps an observer's count;
  // nullptr before the first.
  virtual const fb::Program* last_program() const { return nullptr; }

  virtual bool horizons_are_prompts() const { return false; }

  virtual const RunLimits& limits() const = 0;  // effective, none 0
  virtual int64_t blocks_per_seq() const = 0;
  virtual int64_t num_blocks() const = 0;  // of the cache, all sequences
  virtual int64_t block_tokens() const = 0;
  virtual int64_t vocab_size() const = 0;
  // Ceilings of what a step brings beside its tokens; 0: the program has none.
  virtual int64_t max_source_tokens() const { return 0; }
  // The token that a decoder beside an encoder begins with; -1: there is none.
  virtual int32_t decoder_start() const { return -1; }
  virtual int64_t max_image_tokens() const { return 0; }
  virtual int64_t patch_elements() const { return 0; }  // pixels of a token
  virtual int64_t max_images() const { return 0; }
  virtual bool reads_types() const { return false; }  // StepBatch::types
  // Bytes of one kind: as the plan says, and as our allocators took.
  struct MemoryLine {
    std::string what;  // "weights", "arena", "cache", "staging"; outside the
                       // plan: "context", "modules", "workspace"
    int64_t planned = 0, actual = 0;
    bool in_plan = true;
  };
  virtual std::vector<MemoryLine> memory() const = 0;
  // That bringing the weights' file to the device took, beside other work; 0
  // where it is only mapped.
  virtual double weights_seconds() const { return 0; }

  // A step of a program as the device ran it.
  struct StepTiming {
    std::string program;  // "step", "decode_8"
    std::string name;     // the step's in the plan
    std::string kind;     // what ran: "linear_mma", "gemm", "all_reduce"
    int layer = -1;
    double begin_us = 0, us = 0;  // begins count from the first one timed
  };
  // While on, every Execute runs its steps one after the other, with the time
  // taken around each, so it is slower than it would be. Unimplemented where
  // the back end can't.
  virtual absl::Status TimeSteps(bool on) {
    return absl::UnimplementedError("this back end does not time its steps");
  }
  // In the order in which they ran, since the last call.
  virtual absl::StatusOr<std::vector<StepTiming>> TakeTimings() {
    return std::vector<StepTiming>();
  }
  // Bytes a second that the device can read, measured now; Unimplemented on
  // the CPU.
  virtual absl::StatusOr<double> MeasureReadBandwidth() {
    return absl::UnimplementedError("the read bandwidth of a CPU");
  }
};

// Whether the launch has as many ranks as the plan, and this one's is its own;
// both back ends ask before they take anything. FailedPrecondition else.
absl::Status CheckLaunchPlace(const Plan& plan, const Comm* comm);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_EXECUTOR_H_
