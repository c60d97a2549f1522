// A program's steps: what each refers to, and that what it reads was written
// and is still there.
#include <algorithm>
#include <set>
#include <vector>

#include "runtime/plan_check.h"
#include "schema/base/status_macros.h"
#include "schema/ops.h"

namespace deepslice {
namespace {

// Which buffers a step reads and which it writes.
struct Access {
  std::vector<int32_t> reads;
  int32_t output = -1;
  // The output may take the slot of the operand that this step reads last.
  bool in_place = false;
};

// Element i of the result depends on element i of each input alone.
bool IsElementwise(OpKind kind) {
  return kind == OpKind::kAdd || kind == OpKind::kAddBias ||
         kind == OpKind::kMul || kind == OpKind::kActivation;
}

absl::Status AddOperands(
    const ProgramView& view,
    const flatbuffers::Vector<const fb::OperandRef*>* operands, Access* out) {
  if (operands == nullptr) return absl::OkStatus();
  const int64_t num_buffers = view.program.buffers()->size();
  const int64_t num_weights = view.plan.weights()->size();
  for (uint32_t i = 0; i < operands->size(); ++i) {
    const fb::OperandRef& o = *operands->Get(i);
    if (o.kind() == fb::OperandKind::None) continue;
    const bool is_buffer = o.kind() == fb::OperandKind::Buffer;
    if (!is_buffer && o.kind() != fb::OperandKind::Weight) {
      return Senseless("operands[", i, "]: kind ", static_cast<int>(o.kind()));
    }
    const int64_t limit = is_buffer ? num_buffers : num_weights;
    if (o.index() < 0 || o.index() >= limit) {
      return Senseless("operands[", i, "]: ", is_buffer ? "buffer " : "weight ",
                       o.index(), " of ", limit);
    }
    if (is_buffer) out->reads.push_back(o.index());
  }
  return absl::OkStatus();
}

absl::Status Missing(const char* table) {
  return Senseless(table, ": the step's table is missing");
}

absl::Status Collect(const ProgramView& view, const fb::Step& step,
                     Access* out) {
  switch (step.kind()) {
    case fb::StepKind::CpuOp: {
      const fb::CpuOpStep* s = step.cpu_op();
      if (s == nullptr) return Missing("cpu_op");
      if (!view.cpu) return Senseless("cpu_op: only target cpu has them");
      out->output = s->output();
      out->in_place = IsElementwise(static_cast<OpKind>(s->op()));
      return AddOperands(view, s->operands(), out);
    }
    case fb::StepKind::Collective: {
      const fb::CollectiveStep* s = step.collective();
      if (s == nullptr) return Missing("collective");
      out->output = s->output();
      out->reads = {s->input()};
      out->in_place = s->kind() == fb::CollectiveKind::AllReduce;
      return absl::OkStatus();
    }
    case fb::StepKind::Copy: {
      const fb::CopyStep* s = step.copy();
      if (s == nullptr) return Missing("copy");
      out->output = s->output();
      out->reads = {s->input()};
      return absl::OkStatus();
    }
    case fb::StepKind::Launch: {
      const fb::LaunchStep* s = step.launch();
      if (s == nullptr) return Missing("launch");
      if (view.cpu) return Senseless("launch: target cpu has no kernels");
      const int64_t kernels =
          view.target.kernels() == nullptr ? 0 : view.target.kernels()->size();
      if (s->kernel() < 0 || s->kernel() >= kernels) {
        return Senseless("launch: kernel ", s->kernel(), " of ", kernels);
      }
      if (!IsAligned(s->attrs()) || !IsAligned(s->grid())) {
        return Senseless("launch: attrs or grid: unaligned");
      }
      out->output = s->output();
      return AddOperands(view, s->operands(), out);
    }
    case fb::StepKind::Gemm: {
      const fb::GemmStep* s = step.gemm();
      if (s == nullptr) return Missing("gemm");
      if (view.cpu) return Senseless("gemm: target cpu has none");
      const int64_t num_weights = view.plan.weights()->size();
      if (s->weight() < 0 || s->weight() >= num_weights || s->bias() < -1 ||
          s->bias() >= num_weights) {
        return Senseless("gemm: weight ", s->weight(), ", bias ", s->bias(),
                         " of ", num_weights);
      }
      out->output = s->output();
      out->reads = {s->a()};
      if (s->residual() != -1) out->reads.push_back(s->residual());
      return absl::OkStatus();
    }
  }
  return Senseless("kind ", static_cast<int>(step.kind()));
}

absl::Status CheckLinks(const ProgramView& view, const fb::Step& step,
                        int64_t index, const Access& access) {
  const int64_t num_buffers = view.program.buffers()->size();
  for (const int32_t b : access.reads) {
    if (b < 0 || b >= num_buffers) {
      return Senseless("reads buffer ", b, " of ", num_buffers);
    }
  }
  if (access.output < 0 || access.output >= num_buffers) {
    return Senseless("output: buffer ", access.output, " of ", num_buffers);
  }
  if (step.stream() < 0 || step.stream() > 64 ||
      (view.cpu && step.stream() != 0)) {
    return Senseless("stream ", step.stream());
  }
  if (step.waits() == nullptr) return absl::OkStatus();
  for (const int32_t w : *step.waits()) {
    if (w < 0 || w >= index) {
      return Senseless("waits: step ", w, "; earlier steps are allowed");
    }
  }
  return absl::OkStatus();
}

// A buffer lives from the step that writes it to the last that reads it; two
// that are alive together have slots of their own.
absl::Status CheckLives(const ProgramView& view,
                        const std::vector<Access>& steps) {
  const fb::Program& p = view.program;
  const int64_t end = steps.size();
  std::vector<int64_t> last_read(p.buffers()->size(), -1);
  for (int64_t i = 0; i < end; ++i) {
    for (const int32_t b : steps[i].reads) last_read[b] = i;
  }
  for (const int32_t b : *p.outputs()) last_read[b] = end;

  std::vector<bool> written(p.buffers()->size());
  for (const int32_t b : *p.inputs()) written[b] = true;
  std::vector<int32_t> holder(p.slots()->size(), -1);
  const auto where = [&](int64_t i) {
    return absl::StrCat("steps[", i, "] (", Quoted(p.steps()->Get(i)->name()),
                        ")");
  };
  const auto name = [&](int32_t b) {
    return absl::StrCat("buffers[", b, "] (",
                        Quoted(p.buffers()->Get(b)->name()), ")");
  };
  for (int64_t i = 0; i < end; ++i) {
    for (const int32_t b : steps[i].reads) {
      if (!written[b]) {
        return Senseless(where(i), ": reads ", name(b),
                         " before any step "
                         "writes it");
      }
    }
    const int32_t out = steps[i].output;
    if (written[out]) {
      return Senseless(where(i), ": writes ", name(out),
                       ", which has its value already");
    }
    written[out] = true;
    int32_t& held = holder[p.buffers()->Get(out)->slot()];
    if (held >= 0) {
      const bool free =
          last_read[held] < i ||
          (last_read[held] == i && steps[i].in_place &&
           SameExtents(*p.buffers()->Get(held), *p.buffers()->Get(out)));
      if (!free) {
        return Senseless(where(i), ": writes ", name(out), " over ", name(held),
                         " in slots[", p.buffers()->Get(out)->slot(),
                         "], which is still needed");
      }
    }
    held = out;
  }
  for (const int32_t b : *p.outputs()) {
    if (!written[b]) return Senseless("outputs: no step writes ", name(b));
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
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status CheckSteps(const ProgramView& view) {
  const auto& steps = *view.program.steps();
  if (steps.size() == 0) return Senseless("steps: there is none");
  std::vector<Access> accesses(steps.size());
  uint32_t sequence = 0;
  std::set<int32_t> states;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const fb::Step& step = *steps.Get(i);
    absl::Status s = Collect(view, step, &accesses[i]);
    if (s.ok()) s = CheckLinks(view, step, i, accesses[i]);
    if (s.ok() && view.program.buffers()->Get(accesses[i].output)->slot() < 0) {
      s = Senseless("output: an input of the program");
    }
    if (s.ok()) s = CheckMeaning(view, step, &sequence, &states);
    DS_RETURN_IF_ERROR(
        Annotate(s, "steps[", i, "] (", Quoted(step.name()), ")"));
  }
  return CheckLives(view, accesses);
}

}  // namespace deepslice
