// A step program resolved for one run: kernels, addresses and sizes, so that a
// step is a walk over a flat list.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CPU_STEP_LIST_H_
#define DEEPSLICE_RUNTIME_BACKEND_CPU_STEP_LIST_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu.h"
#include "runtime/backend/cpu/run_sizes.h"
#include "runtime/plan.h"

namespace deepslice {

// The caller's arrays of a step, in the order of StepBatch.
inline constexpr int kNumInputs = 15;

struct ResolvedStep {
  enum Kind { kKernel, kAllReduce, kAllGather, kCopy };
  Kind kind = kKernel;
  CpuKernel kernel = nullptr;  // kKernel
  int num_operands = 0;
  // Rows that follow a named dim, and inputs, are filled in at each step; all
  // else is final. in[0] is the input of the other kinds.
  CpuCall call;
  int out_rows_dim = -1;  // index into RunSizes::dims; -1: as in `call`
  std::array<int, kMaxOperands> rows_dim;
  std::array<int, kMaxOperands> input;  // below kNumInputs; -1: none
};

struct StepList {
  std::vector<ResolvedStep> steps;
  std::vector<Attr> attrs;  // that the calls point to
  std::vector<CpuState> states;
  int64_t scratch_bytes = 0;  // the most that a step needs
  float* logits = nullptr;  // of a step program
  // Of a program of kind encode: all but the rows, and the dim of those.
  std::vector<NamedOutput> outputs;
  std::vector<int> output_dims;
};

// `arena` and `cache` have the sizes of `sizes`. Scratch and pool are set by
// the caller. Unimplemented for what this back end doesn't run.
absl::StatusOr<StepList> ResolveSteps(const Plan& plan,
                                      const fb::Program& program,
                                      const RunSizes& sizes, char* arena,
                                      char* cache, int num_threads);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CPU_STEP_LIST_H_
