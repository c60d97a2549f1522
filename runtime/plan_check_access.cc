// Which buffers each kind of step reads and writes; every index that it names
// is in range afterwards.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "runtime/plan_check.h"
#include "schema/base/status_macros.h"
#include "schema/ops.h"

namespace deepslice {
namespace {

// Element i of the result depends on element i of each input alone.
bool IsElementwise(OpKind kind) {
  return kind == OpKind::kAdd || kind == OpKind::kAddBias ||
         kind == OpKind::kMul || kind == OpKind::kActivation ||
         kind == OpKind::kScale || kind == OpKind::kSoftcap;
}

// What an operand of that kind counts, and how many there are; cpu_op steps
// have buffers and weights alone.
struct Counted {
  const char* what = nullptr;  // nullptr: no such kind here
  int64_t limit = 0;
};

Counted CountedBy(const ProgramView& view, fb::OperandKind kind) {
  switch (kind) {
    case fb::OperandKind::Buffer:
      return {"buffer ", view.program.buffers()->size()};
    case fb::OperandKind::Weight:
      return {"weight ", view.plan.weights()->size()};
    case fb::OperandKind::State:
      if (view.cpu) return {};
      return {"state ", view.plan.states()->size()};
    case fb::OperandKind::Sync:
      if (view.cpu) return {};
      return {"sync word ", view.target.sync_words()};
    case fb::OperandKind::Scales:
      if (view.cpu) return {};
      return {"scales of weight ", view.plan.weights()->size()};
    default:
      return {};
  }
}

absl::Status AddOperands(
    const ProgramView& view,
    const flatbuffers::Vector<const fb::OperandRef*>& operands,
    StepAccess* out) {
  for (uint32_t i = 0; i < operands.size(); ++i) {
    const fb::OperandRef& o = *operands.Get(i);
    if (o.kind() == fb::OperandKind::None) continue;
    const Counted counted = CountedBy(view, o.kind());
    if (counted.what == nullptr) {
      return Senseless("operands[", i, "]: kind ", static_cast<int>(o.kind()));
    }
    if (o.index() < 0 || o.index() >= counted.limit) {
      return Senseless("operands[", i, "]: ", counted.what, o.index(), " of ",
                       counted.limit);
    }
    if (o.kind() == fb::OperandKind::Buffer) out->reads.push_back(o.index());
  }
  return absl::OkStatus();
}

absl::Status Missing(const char* table) {
  return Senseless(table, ": the step's table is missing");
}

absl::Status Collect(const ProgramView& view, const fb::Step& step,
                     StepAccess* out) {
  switch (step.kind()) {
    case fb::StepKind::CpuOp: {
      const fb::CpuOpStep* s = step.cpu_op();
      if (s == nullptr) return Missing("cpu_op");
      if (!view.cpu) return Senseless("cpu_op: only target cpu has them");
      out->writes = {s->output()};
      DS_RETURN_IF_ERROR(AddOperands(view, *s->operands(), out));
      if (IsElementwise(static_cast<OpKind>(s->op()))) {
        out->replaceable = out->reads;
      }
      return absl::OkStatus();
    }
    case fb::StepKind::Collective: {
      const fb::CollectiveStep* s = step.collective();
      if (s == nullptr) return Missing("collective");
      out->writes = {s->output()};
      out->reads = {s->input()};
      if (s->kind() == fb::CollectiveKind::AllReduce ||
          s->kind() == fb::CollectiveKind::Broadcast) {
        out->replaceable = out->reads;
      }
      return absl::OkStatus();
    }
    case fb::StepKind::Copy: {
      const fb::CopyStep* s = step.copy();
      if (s == nullptr) return Missing("copy");
      out->writes = {s->output()};
      out->reads = {s->input()};
      return absl::OkStatus();
    }
    case fb::StepKind::Launch: {
      const fb::LaunchStep* s = step.launch();
      if (s == nullptr) return Missing("launch");
      if (view.cpu) return Senseless("launch: target cpu has no kernels");
      out->writes.assign(s->outputs()->begin(), s->outputs()->end());
      DS_RETURN_IF_ERROR(AddOperands(view, *s->operands(), out));
      out->replaceable = out->reads;
      return absl::OkStatus();
    }
    case fb::StepKind::Gemm: {
      const fb::GemmStep* s = step.gemm();
      if (s == nullptr) return Missing("gemm");
      if (view.cpu) return Senseless("gemm: target cpu has none");
      const int64_t weights = view.plan.weights()->size();
      if (s->weight() < 0 || s->weight() >= weights) {
        return Senseless("gemm: weight ", s->weight(), " of ", weights);
      }
      out->writes = {s->output()};
      out->reads = {s->a()};
      if (s->residual() != -1) {
        out->reads.push_back(s->residual());
        if (s->residual() != s->a()) out->replaceable = {s->residual()};
      }
      return absl::OkStatus();
    }
  }
  return Senseless("kind ", static_cast<int>(step.kind()));
}

}  // namespace

absl::StatusOr<StepAccess> AccessOf(const ProgramView& view,
                                    const fb::Step& step) {
  StepAccess out;
  DS_RETURN_IF_ERROR(Collect(view, step, &out));
  const int64_t buffers = view.program.buffers()->size();
  for (const int32_t b : out.reads) {
    if (b < 0 || b >= buffers) {
      return Senseless("reads buffer ", b, " of ", buffers);
    }
  }
  if (out.writes.empty()) return Senseless("outputs: there is none");
  for (const int32_t b : out.writes) {
    if (b < 0 || b >= buffers) {
      return Senseless("output: buffer ", b, " of ", buffers);
    }
    if (view.program.buffers()->Get(b)->slot() >= 0) continue;
    // What the last step drew lies in an input, so that the next can read it.
    if (view.cpu || Text(view.program.buffers()->Get(b)->name()) != "sampled") {
      return Senseless("output: an input of the program");
    }
  }
  return out;
}

}  // namespace deepslice
