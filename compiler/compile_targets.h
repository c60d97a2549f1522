// What a plan is compiled for, and the GPUs' part of that: programs, machine
// code, and whether it all fits.
#ifndef DEEPSLICE_COMPILER_COMPILE_TARGETS_H_
#define DEEPSLICE_COMPILER_COMPILE_TARGETS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gpu/gpu_plan.h"
#include "compiler/progress.h"
#include "compiler/schedule.h"
#include "compiler/target.h"
#include "compiler/weight_supply.h"

namespace deepslice {

// The targets of those names, each once, with `device_memory` of every GPU
// where it is not 0. FailedPrecondition for one given twice or none.
absl::StatusOr<std::vector<CompileTarget>> ParseTargets(
    const std::vector<std::string>& names, int64_t device_memory,
    const std::function<void(const std::string&)>& log);

bool HasCpu(const std::vector<CompileTarget>& targets);
bool HasGpu(const std::vector<CompileTarget>& targets);

struct GpuCompileOptions {
  std::string dump_ir, dump_filter;
  bool unchecked = false;    // skip the check across ranks
  std::string kernel_cache;  // "": nowhere
  // The version that NVRTC must have, and what says so ("PLAN: was compiled
  // ..."); empty: any.
  std::string nvrtc, nvrtc_wanted_by;
  int threads = 1;
  std::function<void(const std::string&)> log;
  ReportProgress progress;
};

// Programs and machine code of all GPU targets. FailedPrecondition for what
// does not fit their memory and for another NVRTC than asked for.
absl::StatusOr<GpuPlans> CompileForGpus(
    const GpuCompileOptions& options, const WeightSupply& supply,
    const std::vector<const Graph*>& ranks, const StepCeilings& ceilings,
    const std::vector<CompileTarget>& targets);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_COMPILE_TARGETS_H_
