// What a plan's steps mean: its values computed op by op, in double, from those
// that a device made.
#ifndef DEEPSLICE_TOOLS_STEP_MEANING_H_
#define DEEPSLICE_TOOLS_STEP_MEANING_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/reference.h"
#include "runtime/executor.h"
#include "runtime/plan.h"

namespace deepslice {

// The inputs of one step, kept.
struct KeptBatch {
  std::vector<int32_t> ids, positions, slots, blocks, rows, horizons;
  StepBatch view() const {
    return {ids, positions, slots, blocks, rows, {}, horizons};
  }
};

// A step's table if it is of that kind: nobody has checked the others.
const fb::CpuOpStep* CpuOpOf(const fb::Step& step);

// The buffer that a step of a checked program writes, of several the first.
int OutputOf(const fb::Step& step);

// A program in the CPU's form. The plan holds (CheckPlan): one step writes each
// buffer, before those that read it.
class StepMeaning {
 public:
  // Both must outlive it; the plan holds its weights' numbers (FillSynthetic).
  // Matrices are multiplied by `threads` threads.
  StepMeaning(const Plan& plan, const fb::Program& program, int threads);

  // Begins a step: its inputs are known, and nothing else but the caches.
  void Begin(const KeptBatch& batch);
  // What the device made of a buffer, of the shape that ShapeOf tells.
  void Give(int buffer, RefTensor made) { made_[buffer] = std::move(made); }
  const RefTensor& Made(int buffer) const { return made_.at(buffer); }

  // The buffer that the step of this name writes; -1: no step has the name, or
  // several have.
  int BufferOf(const std::string& step) const;
  // Whether the value is several ranks' together.
  bool IsCollective(int buffer) const {
    return makers_[buffer]->kind() == fb::StepKind::Collective;
  }
  // Rows and columns of a buffer that a step writes, in this batch.
  std::pair<int64_t, int64_t> ShapeOf(int buffer) const;

  // The buffer as its op makes it, whatever the device made of it, from what
  // the device made of others, or else their ops. Unimplemented behind a
  // collective whose value was not given.
  absl::StatusOr<RefTensor> Compute(int buffer);
  // Appends the step's keys and values, of every layer, to the caches.
  absl::Status FillCaches();

 private:
  // A value as the device made it, else as its op did; nullptr before Provide.
  const RefTensor* Find(int buffer) const;
  // Buffers that the maker of `buffer` reads.
  std::vector<int> OperandsOf(int buffer) const;
  // Makes Find(buffer) succeed.
  absl::Status Provide(int buffer);
  // The op that makes `buffer`, over operands that were provided.
  absl::StatusOr<RefTensor> RunMaker(int buffer);
  absl::StatusOr<RefTensor> WholeWeight(int index);
  absl::StatusOr<RefTensor> Embed(int table, const RefTensor& ids,
                                  int64_t begin);
  absl::StatusOr<RefTensor> Linear(int w, const RefCall& call);

  const Plan& plan_;
  const fb::Program& program_;
  const int threads_;
  std::vector<const fb::Step*> makers_;  // by buffer; nullptr of inputs
  std::map<std::string, int> by_name_;   // BufferOf
  std::vector<RefState> states_;
  int64_t tokens_ = 0, wanted_ = 0;           // of the batch
  std::map<int, RefTensor> made_, computed_;  // by buffer
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_STEP_MEANING_H_
