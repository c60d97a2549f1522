#include "tools/plan_reshard.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/compile_targets.h"
#include "compiler/pipeline.h"
#include "compiler/plan_folder.h"
#include "compiler/plan_lock.h"
#include "compiler/plan_origin.h"
#include "schema/base/status_macros.h"
#include "tools/known_plan.h"

namespace deepslice {
namespace {

std::string NvrtcOf(const json::Value& manifest) {
  const json::Value* provenance = manifest.Find("provenance");
  const json::Value* nvrtc =
      provenance == nullptr ? nullptr : provenance->Find("nvrtc");
  return nvrtc != nullptr && nvrtc->is_string() ? nvrtc->as_string() : "";
}

}  // namespace

absl::StatusOr<WrittenPlan> ReshardPlan(const ReshardOptions& o) {
  DS_RETURN_IF_ERROR(CheckOutputApart(o.output, o.plan));
  // Refuses an output that exists before anything is read.
  DS_RETURN_IF_ERROR(PlanFolder::Create(o.output, o.force).status());
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<PlanLock> lock,
                      PlanLock::Take(o.output));
  const int threads = o.threads > 0
                          ? o.threads
                          : std::max(1u, std::thread::hardware_concurrency());
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<KnownPlan> known,
                      LoadKnownPlan(o.plan, "reshard", threads));
  const PlanOrigin& origin = known->origin;
  const auto log = [&](const std::string& line) {
    if (o.log) o.log(line);
  };
  DS_ASSIGN_OR_RETURN(const std::vector<CompileTarget> targets,
                      ParseTargets(origin.targets, origin.device_memory, log));
  DS_ASSIGN_OR_RETURN(
      const CompiledGraphs graphs,
      RunRankPasses(known->unsliced.Clone(), o.tp, origin.passes));
  std::vector<const Graph*> ranks;
  for (const Graph& g : graphs.ranks) ranks.push_back(&g);

  PlanContents contents = known->Contents();
  contents.passes = graphs.passes;
  contents.source = OriginAtTp(origin, o.tp);
  contents.options = *origin.root.Find("options");
  contents.options.Set("tp", o.tp);
  DS_ASSIGN_OR_RETURN(contents.source_files, known->SourceFiles());
  GpuPlans gpu;
  if (HasGpu(targets)) {
    GpuCompileOptions compile;
    compile.kernel_cache = o.kernel_cache;
    compile.nvrtc = NvrtcOf(known->manifest_json);
    compile.nvrtc_wanted_by =
        absl::StrCat(o.plan, ": its kernels were compiled");
    compile.threads = threads;
    compile.log = o.log;
    compile.progress = o.progress;
    DS_ASSIGN_OR_RETURN(gpu, CompileForGpus(compile, *known->supply, ranks,
                                            contents.ceilings, targets));
    contents.gpu = &gpu;
  }
  WriteOptions write;
  write.output = o.output;
  write.replace = o.force;
  write.threads = threads;
  write.progress = o.progress;
  return WritePlan(*known->supply, ranks, contents, write);
}

}  // namespace deepslice
