// Generation over an executor: admits requests, keeps their caches in blocks,
// builds ragged steps, samples, and tells each token as it comes.
#ifndef DEEPSLICE_RUNTIME_ENGINE_H_
#define DEEPSLICE_RUNTIME_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executor.h"
#include "runtime/request.h"

namespace deepslice {

// Rank 0 of a plan. Ranks above 0 call RunFollower instead: they receive each
// step's batch from rank 0 over the comm and execute it until told to stop.
class Engine {
 public:
  // The executor and comm (nullptr at world size 1) must outlive it.
  static std::unique_ptr<Engine> Create(Executor* executor, Comm* comm);
  virtual ~Engine() = default;  // tells the followers to stop

  // Runs all requests as one continuous batch; completions in request order, n
  // of each. InvalidArgument (ids, lengths, parameters; with both numbers when
  // a prompt plus max_new_tokens exceeds the sequence ceiling) before anything
  // runs. What a sequence's own logits bring about (NaN) is its completion's
  // error and no other's. When a step fails on any rank, this and every later
  // call fail with its error.
  virtual absl::StatusOr<std::vector<Completion>> Generate(
      std::vector<Request> requests) = 0;
  // Logits of all positions of each sequence: [sum of lengths, vocab], in
  // chunks of at most max_step_tokens, given to `sink` in order with the row's
  // sequence and position.
  // With an encoder beside the decoder, `sources` has what it reads for each;
  // else it is empty.
  virtual absl::Status Score(
      const std::vector<std::vector<int32_t>>& sequences,
      const std::function<void(int sequence, int64_t position,
                               const float* logits)>& sink,
      const std::vector<std::vector<int32_t>>& sources = {}) = 0;
  // Runs one step of a caller that keeps sequences, blocks and batch itself:
  // logits of its rows, [rows, vocab], valid until the next call; nullptr for
  // no rows. The other calls use all slots and blocks. A batch that is refused
  // fails all later calls, too: the caller has checked it.
  virtual absl::StatusOr<const float*> Step(const StepBatch& batch) = 0;
  // The same for a program of kind encode: its outputs, valid until the next
  // call (encode.h makes the batches).
  virtual absl::StatusOr<std::vector<NamedOutput>> Encode(
      const StepBatch& batch) = 0;
};

// For ranks above 0; returns when rank 0 stops, or with the comm's error.
absl::Status RunFollower(Executor* executor, Comm* comm);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_ENGINE_H_
