// The GPU's share of a plan set: programs of every rank for every target, and
// the machine code of their kernels.
#ifndef DEEPSLICE_COMPILER_GPU_GPU_PLAN_H_
#define DEEPSLICE_COMPILER_GPU_GPU_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/gpu/lowered_program.h"
#include "compiler/jit/jit.h"
#include "compiler/schedule.h"
#include "compiler/target.h"
#include "ir/graph.h"

namespace deepslice {

// An image inside kernels.bin.
struct KernelPlace {
  std::string entry;  // mangled
  uint64_t offset = 0, bytes = 0, xxh3 = 0;
};

struct GpuTargetPlan {
  CompileTarget target;
  std::vector<GpuPrograms> ranks;
  // Per rank, one for each of its kernels; empty until they are compiled.
  std::vector<std::vector<KernelPlace>> places;
};

struct GpuPlans {
  std::vector<GpuTargetPlan> targets;
  std::string kernels;  // kernels.bin: images, each at a multiple of 256
  std::string nvrtc;    // version
};

// The targets that are no CPU, in order, without machine code.
absl::StatusOr<GpuPlans> LowerForTargets(
    const std::vector<const Graph*>& ranks, const StepCeilings& ceilings,
    absl::Span<const CompileTarget> targets);

// Whether the collectives of all ranks agree in every program.
absl::Status CheckGpuCollectives(const GpuPlans& plans);

// Compiles every kernel once; the same bytes whatever the compiler's threads.
// `log`, which may be empty, hears how many there are before a target's begin.
absl::Status CompileKernels(
    KernelCompiler& compiler,
    const std::function<void(const std::string&)>& log, GpuPlans* plans);

// FailedPrecondition, with the numbers, when weights, arena and cache of a rank
// exceed the memory of a card that the target names.
absl::Status CheckDeviceMemory(const GpuPlans& plans,
                               const std::vector<const Graph*>& ranks,
                               const std::vector<uint64_t>& weight_bytes,
                               const StepCeilings& ceilings);

// Writes FOLDER/90.lower.TARGET.PROGRAM.txt, those of a rank under
// FOLDER/rankR/ when there are several; `filter` is a substring of the file
// name, "" for all. The folders exist.
absl::Status DumpGpuPrograms(const GpuPlans& plans,
                             const std::vector<const Graph*>& ranks,
                             const std::string& folder,
                             const std::string& filter);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_GPU_PLAN_H_
