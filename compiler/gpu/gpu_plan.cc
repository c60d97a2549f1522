#include "compiler/gpu/gpu_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/gpu/lower.h"
#include "compiler/gpu/program_builder.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "schema/plan_format.h"

namespace deepslice {

absl::StatusOr<GpuPlans> LowerForTargets(
    const std::vector<const Graph*>& ranks, const StepCeilings& ceilings,
    absl::Span<const CompileTarget> targets) {
  GpuPlans out;
  for (const CompileTarget& target : targets) {
    if (target.cpu) continue;
    GpuTargetPlan plan;
    plan.target = target;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const PlaceInSet place{static_cast<int>(r),
                             static_cast<int>(ranks.size())};
      absl::StatusOr<GpuPrograms> programs =
          LowerForGpu(*ranks[r], ceilings, place, target.gpu);
      if (!programs.ok()) return Annotate(programs.status(), "rank ", r);
      plan.ranks.push_back(*std::move(programs));
    }
    out.targets.push_back(std::move(plan));
  }
  return out;
}

absl::Status CheckGpuCollectives(const GpuPlans& plans) {
  for (const GpuTargetPlan& t : plans.targets) {
    for (size_t p = 0; p < t.ranks[0].programs.size(); ++p) {
      const LoweredProgram& first = t.ranks[0].programs[p];
      const std::vector<std::string> wanted = CollectiveLines(first);
      for (size_t r = 1; r < t.ranks.size(); ++r) {
        const std::vector<std::string> found =
            CollectiveLines(t.ranks[r].programs[p]);
        for (size_t i = 0; i < std::max(wanted.size(), found.size()); ++i) {
          const std::string a = i < wanted.size() ? wanted[i] : "none";
          const std::string b = i < found.size() ? found[i] : "none";
          if (a == b) continue;
          return absl::InternalError(absl::StrFormat(
              "target %s, program %s: collective %d differs: rank 0 has %s, "
              "rank %d has %s; the ranks would wait for each other",
              t.target.name, first.name, i, a, r, b));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CompileKernels(
    KernelCompiler& compiler,
    const std::function<void(const std::string&)>& log, GpuPlans* plans) {
  plans->nvrtc = compiler.version();
  // Equal images lie there once, whichever target or rank wants them.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint64_t>> offsets;
  const auto place = [&](const std::string& image) {
    const uint64_t xxh3 = Xxh3(image);
    std::vector<uint64_t>& same = offsets[{xxh3, image.size()}];
    for (const uint64_t at : same) {
      if (plans->kernels.compare(at, image.size(), image) == 0) {
        return std::make_pair(at, xxh3);
      }
    }
    plans->kernels.resize(RoundUp(plans->kernels.size(), kBlobAlignment));
    same.push_back(plans->kernels.size());
    plans->kernels += image;
    return std::make_pair(same.back(), xxh3);
  };
  for (GpuTargetPlan& t : plans->targets) {
    SpecTable all;
    std::vector<std::vector<int>> of_rank;
    for (const GpuPrograms& programs : t.ranks) {
      std::vector<int>& indexes = of_rank.emplace_back();
      for (const KernelSpec& k : programs.kernels) {
        indexes.push_back(all.Add(k));
      }
    }
    if (log) {
      log(absl::StrCat(t.target.name, ": ", all.specs().size(),
                       " kernels, through NVRTC ", compiler.version(),
                       " or from the cache"));
    }
    absl::StatusOr<std::vector<CompiledKernel>> compiled =
        compiler.CompileAll(all.specs(), t.target.gpu);
    if (!compiled.ok()) {
      return Annotate(compiled.status(), "target ", t.target.name);
    }
    std::vector<KernelPlace> places;
    for (const CompiledKernel& k : *compiled) {
      const auto [offset, xxh3] = place(k.image);
      places.push_back({k.entry, offset, k.image.size(), xxh3});
    }
    t.places.clear();
    for (const std::vector<int>& indexes : of_rank) {
      std::vector<KernelPlace>& rank = t.places.emplace_back();
      for (const int i : indexes) rank.push_back(places[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDeviceMemory(const GpuPlans& plans,
                               const std::vector<const Graph*>& ranks,
                               const std::vector<uint64_t>& weight_bytes,
                               const StepCeilings& ceilings) {
  for (const GpuTargetPlan& t : plans.targets) {
    if (t.target.device_memory == 0) continue;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const int64_t weights = static_cast<int64_t>(weight_bytes[r]);
      const int64_t arena = t.ranks[r].ArenaBytes();
      const int64_t cache = CacheBytes(*ranks[r], ceilings);
      const int64_t all = weights + arena + cache;
      if (all <= t.target.device_memory) continue;
      return absl::FailedPreconditionError(absl::StrFormat(
          "target %s: rank %d needs %.2f GB (weights %.2f, arena %.2f, cache "
          "%.2f), the GPU (--target, --device-memory) has %.2f; use more ranks "
          "(--tp), "
          "a smaller --max-batch, --max-seq-len or --max-step-tokens",
          t.target.name, r, all / 1e9, weights / 1e9, arena / 1e9, cache / 1e9,
          t.target.device_memory / 1e9));
    }
  }
  return absl::OkStatus();
}

absl::Status DumpGpuPrograms(const GpuPlans& plans,
                             const std::vector<const Graph*>& ranks,
                             const std::string& folder,
                             const std::string& filter) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::vector<std::string> weights, states;
    for (const auto& w : ranks[r]->weights()) weights.push_back(w->name);
    for (const auto& s : ranks[r]->states()) states.push_back(s->name);
    const std::string to =
        ranks.size() == 1 ? folder : JoinPath(folder, absl::StrCat("rank", r));
    for (const GpuTargetPlan& t : plans.targets) {
      for (const LoweredProgram& p : t.ranks[r].programs) {
        const std::string name =
            absl::StrCat("90.lower.", t.target.name, ".", p.name, ".txt");
        if (!absl::StrContains(name, filter)) continue;
        DS_RETURN_IF_ERROR(WriteFile(
            JoinPath(to, name),
            PrintLoweredProgram(p, t.ranks[r].kernels, weights, states)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
