#include "compiler/compile_targets.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "compiler/jit/jit.h"
#include "compiler/plan_buffer.h"
#include "compiler/plan_folder.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::StatusOr<std::vector<CompileTarget>> ParseTargets(
    const std::vector<std::string>& names, int64_t device_memory,
    const std::function<void(const std::string&)>& log) {
  std::vector<CompileTarget> targets;
  for (const std::string& name : names) {
    DS_ASSIGN_OR_RETURN(CompileTarget target, ParseTarget(name));
    if (device_memory > 0 && !target.cpu) target.device_memory = device_memory;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i].name != target.name) continue;
      return absl::FailedPreconditionError(absl::StrFormat(
          "--target %s: is %s, as %s is; name each architecture once", name,
          target.name, names[i]));
    }
    if (!target.note.empty()) log(target.note);
    targets.push_back(std::move(target));
  }
  if (targets.empty()) {
    return absl::FailedPreconditionError("--target: none; name cpu, h200, ...");
  }
  return targets;
}

bool HasCpu(const std::vector<CompileTarget>& targets) {
  return absl::c_any_of(targets, [](const CompileTarget& t) { return t.cpu; });
}
bool HasGpu(const std::vector<CompileTarget>& targets) {
  return absl::c_any_of(targets, [](const CompileTarget& t) { return !t.cpu; });
}

absl::StatusOr<GpuPlans> CompileForGpus(
    const GpuCompileOptions& o, const WeightSupply& supply,
    const std::vector<const Graph*>& ranks, const StepCeilings& ceilings,
    const std::vector<CompileTarget>& targets) {
  DS_ASSIGN_OR_RETURN(GpuPlans gpu, LowerForTargets(ranks, ceilings, targets));
  if (!o.dump_ir.empty()) {
    DS_RETURN_IF_ERROR(DumpGpuPrograms(gpu, ranks, o.dump_ir, o.dump_filter));
  }
  if (!o.unchecked) DS_RETURN_IF_ERROR(CheckGpuCollectives(gpu));
  std::vector<uint64_t> weight_bytes;
  for (const Graph* g : ranks) {
    weight_bytes.push_back(LayOutWeights(*g, supply).memory_bytes);
  }
  DS_RETURN_IF_ERROR(CheckDeviceMemory(gpu, ranks, weight_bytes, ceilings));
  JitOptions jit;
  jit.cache_dir = o.kernel_cache;
  jit.threads = o.threads;
  jit.stopped = PlanWritingInterrupted;
  if (o.progress) {
    jit.progress = [&o](int done, int all) {
      o.progress("compiled", done, all, "kernels");
    };
  }
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<KernelCompiler> compiler,
                      KernelCompiler::Open(jit));
  if (!o.nvrtc.empty() && compiler->version() != o.nvrtc) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s by NVRTC %s; found NVRTC %s here, whose kernels differ; use NVRTC "
        "%s (DEEPSLICE_NVRTC), or compile the source again",
        o.nvrtc_wanted_by, o.nvrtc, compiler->version(), o.nvrtc));
  }
  DS_RETURN_IF_ERROR(CompileKernels(*compiler, o.log, &gpu));
  return gpu;
}

}  // namespace deepslice
