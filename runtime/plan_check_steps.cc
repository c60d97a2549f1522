// A program's steps, one by one: their links to others, and what each means.
#include <set>
#include <vector>

#include "runtime/plan_check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status CheckLinks(const fb::Step& step, int64_t index) {
  if (step.stream() != 0) {
    return Senseless("stream ", step.stream(), "; 0 is allowed");
  }
  if (step.waits() == nullptr) return absl::OkStatus();
  for (const int32_t w : *step.waits()) {
    if (w < 0 || w >= index) {
      return Senseless("waits: step ", w, "; earlier steps are allowed");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMeaning(const ProgramView& view, const fb::Step& step,
                          uint32_t* sequence, std::set<int32_t>* states) {
  const auto& buffers = *view.program.buffers();
  switch (step.kind()) {
    case fb::StepKind::CpuOp: {
      DS_RETURN_IF_ERROR(CheckCpuOp(view, *step.cpu_op()));
      const int32_t state = step.cpu_op()->state();
      if (state >= 0 && !states->insert(state).second) {
        return Senseless("state ", state, ": an earlier step has it");
      }
      return absl::OkStatus();
    }
    case fb::StepKind::Collective:
      if (step.collective()->sequence() != *sequence) {
        return Senseless("collective: sequence ", step.collective()->sequence(),
                         "; ", *sequence, " comes next");
      }
      ++*sequence;
      return CheckCollective(view, *step.collective());
    case fb::StepKind::Copy: {
      const int32_t in = step.copy()->input(), out = step.copy()->output();
      if (buffers.Get(in)->dtype() != buffers.Get(out)->dtype() ||
          !SameExtents(*buffers.Get(in), *buffers.Get(out))) {
        return Senseless("copy: ", BufferText(view, in), " into ",
                         BufferText(view, out));
      }
      // What is copied is rows of a fixed size.
      const auto& extents = *buffers.Get(in)->extents();
      for (uint32_t i = 1; i < extents.size(); ++i) {
        if (extents.Get(i)->dim() < 0) continue;
        return Senseless("copy: ", BufferText(view, in),
                         ": only the first extent may be named");
      }
      return absl::OkStatus();
    }
    case fb::StepKind::Launch:
      return CheckLaunch(view, *step.launch());
    case fb::StepKind::Gemm:
      return CheckGemm(view, *step.gemm());
  }
  return Senseless("kind ", static_cast<int>(step.kind()));
}

}  // namespace

absl::Status CheckSteps(const ProgramView& view) {
  const auto& steps = *view.program.steps();
  if (steps.size() == 0) return Senseless("steps: there is none");
  std::vector<StepAccess> accesses(steps.size());
  uint32_t sequence = 0;
  std::set<int32_t> states;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const fb::Step& step = *steps.Get(i);
    const auto check = [&]() -> absl::Status {
      DS_ASSIGN_OR_RETURN(accesses[i], AccessOf(view, step));
      DS_RETURN_IF_ERROR(CheckLinks(step, i));
      return CheckMeaning(view, step, &sequence, &states);
    };
    DS_RETURN_IF_ERROR(
        Annotate(check(), "steps[", i, "] (", Quoted(step.name()), ")"));
  }
  return CheckLives(view, accesses);
}

}  // namespace deepslice
