#include "tools/plan_view.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/base/checked_math.h"
#include "schema/base/dtype.h"
#include "schema/base/json.h"
#include "schema/ops.h"
#include "tools/plan_inspect_gpu.h"

namespace deepslice {
namespace {

const char* kCollectiveNames[] = {"all_reduce", "all_gather", "broadcast",
                                  "all_to_all"};

std::string DimName(const fb::Program& program, int dim) {
  return program.dims()->Get(dim)->name()->str();
}

// At most the largest number: a plan may claim sizes that nothing has.
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
int64_t Plus(int64_t a, int64_t b) {
  int64_t sum;
  return CheckedAdd(a, b, &sum) ? sum : kMost;
}
int64_t Times(int64_t a, int64_t b) {
  int64_t product;
  return CheckedMul(a, b, &product) ? product : kMost;
}

int64_t SlotBytes(const fb::Program& program, const fb::Slot& s) {
  const int64_t n = s.dim() < 0 ? 0 : program.dims()->Get(s.dim())->maximum();
  return RoundUp(s.bytes() + s.bytes_per_unit() * n, kSlotAlignment);
}

class StepReader {
 public:
  StepReader(const fb::Plan& plan, const fb::Target& target,
             const fb::Program& program)
      : plan_(plan), target_(target), program_(program) {}

  StepView Read(const fb::Step& step) {
    view_ = {};
    view_.name = step.name()->str();
    view_.layer = step.layer();
    if (step.cpu_op() != nullptr) {
      ReadCpuOp(*step.cpu_op());
    } else if (step.launch() != nullptr) {
      ReadLaunch(*step.launch());
    } else if (step.gemm() != nullptr) {
      ReadGemm(*step.gemm());
    } else if (step.collective() != nullptr) {
      ReadCollective(*step.collective());
    } else if (step.copy() != nullptr) {
      view_.op = "copy";
      AddInput("", step.copy()->input());
      view_.outputs = {step.copy()->output()};
    }
    if (!view_.outputs.empty()) {
      const fb::Buffer& out = *program_.buffers()->Get(view_.outputs[0]);
      view_.type = BufferType(out, program_);
      view_.slot = out.slot();
    }
    return view_;
  }

 private:
  void AddInput(absl::string_view prefix, int buffer) {
    view_.inputs.push_back(buffer);
    view_.reads.push_back(absl::StrCat(
        prefix, "%", program_.buffers()->Get(buffer)->name()->str()));
  }
  void AddWeight(absl::string_view prefix, int weight) {
    view_.reads.push_back(
        absl::StrCat(prefix, "@", plan_.weights()->Get(weight)->name()->str()));
  }

  void AddOperand(absl::string_view prefix, const fb::OperandRef& o) {
    switch (o.kind()) {
      case fb::OperandKind::Buffer:
        return AddInput(prefix, o.index());
      case fb::OperandKind::Weight:
        return AddWeight(prefix, o.index());
      case fb::OperandKind::Scales:
        return AddWeight(absl::StrCat(prefix, "scales "), o.index());
      case fb::OperandKind::State:
        view_.reads.push_back(absl::StrCat(
            prefix, "state @", plan_.states()->Get(o.index())->name()->str()));
        return;
      default:
        return;  // absent, or words that steps meet at
    }
  }

  void ReadCpuOp(const fb::CpuOpStep& op) {
    const OpDef& def = *FindOpByTag(op.op());
    view_.op = std::string(def.spelling);
    for (size_t k = 0; k < op.operands()->size(); ++k) {
      AddOperand(def.operands[k].optional
                     ? absl::StrCat(def.operands[k].name, "=")
                     : "",
                 *op.operands()->Get(k));
    }
    std::vector<std::string> attrs;
    for (size_t k = 0; op.attrs() != nullptr && k < op.attrs()->size(); ++k) {
      const fb::AttrValue& a = *op.attrs()->Get(k);
      const AttrDef& d = def.attrs[k];
      const std::string value =
          d.type == AttrType::kF64 ? json::Write(a.f())
          : d.type == AttrType::kEnum
              ? std::string(EnumValues(d.enum_name)[a.i()])
              : absl::StrCat(a.i());
      attrs.push_back(absl::StrCat(d.name, "=", value));
    }
    view_.detail = absl::StrJoin(attrs, ", ");
    if (op.state() >= 0) {
      view_.reads.push_back(absl::StrCat(
          "state @", plan_.states()->Get(op.state())->name()->str()));
    }
    view_.outputs = {op.output()};
  }

  void ReadLaunch(const fb::LaunchStep& s) {
    const fb::Kernel& k = *target_.kernels()->Get(s.kernel());
    view_.op = k.label() != nullptr ? k.label()->str() : k.entry()->str();
    for (const fb::OperandRef* o : *s.operands()) AddOperand("", *o);
    std::vector<std::string> grid;
    for (const fb::GridDim* g : *s.grid()) {
      std::string text;
      if (g->dim() < 0 || g->times() != 1) text = absl::StrCat(g->times());
      if (g->dim() >= 0) {
        absl::StrAppend(&text, text.empty() ? "" : " * ",
                        g->per_block() == 1
                            ? DimName(program_, g->dim())
                            : absl::StrCat("ceil(", DimName(program_, g->dim()),
                                           " / ", g->per_block(), ")"));
      }
      grid.push_back(text);
    }
    view_.detail = absl::StrCat("grid ", absl::StrJoin(grid, " x "), ", block ",
                                absl::StrJoin(*s.block(), " x "),
                                s.programmatic() ? ", starts early" : "");
    view_.outputs.assign(s.outputs()->begin(), s.outputs()->end());
  }

  void ReadGemm(const fb::GemmStep& g) {
    view_.op = "gemm";
    AddInput("", g.a());
    AddWeight("", g.weight());
    if (g.residual() >= 0) AddInput("residual=", g.residual());
    view_.outputs = {g.output()};
  }

  void ReadCollective(const fb::CollectiveStep& c) {
    view_.op = kCollectiveNames[static_cast<int>(c.kind())];
    view_.collective = true;
    AddInput("", c.input());
    view_.outputs = {c.output()};
    const fb::RankGroup& group = *plan_.groups()->Get(c.group());
    view_.group = absl::StrCat(EnumValues("Group")[group.kind()], ": ",
                               absl::StrJoin(*group.ranks(), ", "));
    const fb::Buffer& in = *program_.buffers()->Get(c.input());
    const fb::Extent& rows = *in.extents()->Get(0);
    const int64_t most = rows.dim() < 0
                             ? rows.size()
                             : program_.dims()->Get(rows.dim())->maximum();
    view_.collective_bytes =
        most * c.columns() * DTypeSize(static_cast<DType>(c.dtype()));
    view_.detail = absl::StrCat("number ", c.sequence(), ", over ", view_.group,
                                ", ", DTypeName(static_cast<DType>(c.dtype())),
                                " x ", c.columns());
  }

  const fb::Plan& plan_;
  const fb::Target& target_;
  const fb::Program& program_;
  StepView view_;
};

// First and last step that each buffer is used by; -1: none.
std::vector<std::pair<int, int>> Lives(const fb::Program& program,
                                       const std::vector<StepView>& steps) {
  std::vector<std::pair<int, int>> lives(program.buffers()->size(), {-1, -1});
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const auto* buffers : {&steps[i].inputs, &steps[i].outputs}) {
      for (const int b : *buffers) {
        if (lives[b].first < 0) lives[b].first = static_cast<int>(i);
        lives[b].second = static_cast<int>(i);
      }
    }
  }
  for (const int32_t b : *program.outputs()) {
    lives[b].second = static_cast<int>(steps.size()) - 1;
  }
  return lives;
}

std::vector<int64_t> LiveBytes(const fb::Program& program,
                               const std::vector<StepView>& steps) {
  const auto lives = Lives(program, steps);
  // Slots of the buffers whose life begins at, or has ended before, a step.
  std::vector<std::vector<int>> begins(steps.size()), ended(steps.size() + 1);
  for (size_t b = 0; b < lives.size(); ++b) {
    const int slot = program.buffers()->Get(b)->slot();
    if (slot < 0 || lives[b].first < 0) continue;
    begins[lives[b].first].push_back(slot);
    ended[lives[b].second + 1].push_back(slot);
  }
  // Two buffers share a slot at the step that turns one into the other.
  std::vector<int> users(program.slots()->size());
  std::vector<int64_t> live;
  int64_t bytes = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const int s : begins[i]) {
      if (users[s]++ == 0) {
        bytes = Plus(bytes, SlotBytes(program, *program.slots()->Get(s)));
      }
    }
    for (const int s : ended[i]) {
      if (--users[s] == 0) {
        bytes -= SlotBytes(program, *program.slots()->Get(s));
      }
    }
    live.push_back(bytes);
  }
  return live;
}

// What makes two steps alike whatever their layer: weights and buffers are
// other ones by name.
std::string Shape(const StepView& s) {
  return absl::StrCat(s.op, "|", s.collective ? s.group : s.detail, "|", s.type,
                      "|", s.reads.size());
}

}  // namespace

std::vector<ProgramSteps> ViewPrograms(const Plan& plan) {
  std::vector<ProgramSteps> views;
  for (const fb::Target* t : *plan.fb().targets()) {
    for (const fb::Program* p : *t->programs()) {
      ProgramSteps& view = views.emplace_back();
      view.target = t->name()->str();
      view.name = p->name()->str();
      StepReader reader(plan.fb(), *t, *p);
      for (const fb::Step* s : *p->steps())
        view.steps.push_back(reader.Read(*s));
      view.live_bytes = LiveBytes(*p, view.steps);
      for (const fb::Slot* s : *p->slots()) {
        view.arena_bytes = Plus(view.arena_bytes, SlotBytes(*p, *s));
      }
      std::vector<std::string> dims;
      for (const fb::NamedDim* d : *p->dims()) {
        dims.push_back(absl::StrCat(d->name()->str(), " ", d->maximum()));
      }
      view.ceilings = absl::StrJoin(dims, ", ");
    }
  }
  return views;
}

std::vector<StepBlock> CollapseLayers(const ProgramSteps& program) {
  const std::vector<StepView>& steps = program.steps;
  std::vector<StepBlock> blocks;
  const auto alike = [&](const StepBlock& block, int begin, int end) {
    if (block.first_layer < 0 || end - begin != block.end - block.begin ||
        steps[begin].layer != block.first_layer + block.times) {
      return false;
    }
    for (int i = 0; i < end - begin; ++i) {
      if (Shape(steps[block.begin + i]) != Shape(steps[begin + i])) {
        return false;
      }
    }
    return true;
  };
  const int count = static_cast<int>(steps.size());
  for (int begin = 0; begin < count;) {
    int end = begin + 1;
    while (end < count && steps[end].layer == steps[begin].layer) ++end;
    if (!blocks.empty() && steps[begin].layer >= 0 &&
        alike(blocks.back(), begin, end)) {
      ++blocks.back().times;
    } else {
      blocks.push_back({begin, end, 1, steps[begin].layer});
    }
    begin = end;
  }
  return blocks;
}

std::string CollectiveLine(const StepView& step) {
  return absl::StrCat(step.op, " of %", step.name, ", ", step.detail);
}

const fb::Program* CpuProgram(const Plan& plan) {
  const fb::Program* step = plan.FindProgram("cpu", fb::ProgramKind::Step);
  return step != nullptr ? step
                         : plan.FindProgram("cpu", fb::ProgramKind::Encode);
}

int64_t CacheBytesAtCeilings(const Plan& plan) {
  int64_t most = 0;
  for (const fb::Target* t : *plan.fb().targets()) {
    for (const fb::Program* p : *t->programs()) {
      // One block for each of S sequences and B blocks of each.
      // An encoder's keys are one block of each sequence.
      int64_t blocks = 1, sequences = 1, bytes = 0;
      for (const fb::NamedDim* d : *p->dims()) {
        const std::string name = d->name()->str();
        if (name == "S" || name == "B") blocks = Times(blocks, d->maximum());
        if (name == "S") sequences = d->maximum();
      }
      for (const fb::State* s : *plan.fb().states()) {
        const bool cross = s->kind() == fb::StateKind::Cross;
        bytes = Plus(bytes,
                     Times(s->bytes_per_block(), cross ? sequences : blocks));
      }
      most = std::max(most, bytes);
    }
  }
  return most;
}

}  // namespace deepslice
