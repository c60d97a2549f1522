#include "tools/plan_inspect_gpu.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/base/dtype.h"

namespace deepslice {
namespace {

using json::Value;

std::string Name(const fb::Program& program, int32_t buffer) {
  return absl::StrCat("%", program.buffers()->Get(buffer)->name()->str());
}

std::string OperandText(const fb::Plan& plan, const fb::Program& program,
                        const fb::OperandRef& o) {
  switch (o.kind()) {
    case fb::OperandKind::Buffer:
      return Name(program, o.index());
    case fb::OperandKind::Weight:
      return absl::StrCat("@", plan.weights()->Get(o.index())->name()->str());
    case fb::OperandKind::State:
      return absl::StrCat("state @",
                          plan.states()->Get(o.index())->name()->str());
    case fb::OperandKind::Sync:
      return absl::StrCat("sync ", o.index());
    case fb::OperandKind::Scales:
      return absl::StrCat("scales @",
                          plan.weights()->Get(o.index())->name()->str());
    case fb::OperandKind::None:
      break;
  }
  return "-";
}

std::string GridText(const fb::GridDim& g, const fb::Program& program) {
  if (g.dim() < 0) return absl::StrCat(g.times());
  const std::string dim = program.dims()->Get(g.dim())->name()->str();
  return absl::StrCat(g.times() == 1 ? "" : absl::StrCat(g.times(), " * "),
                      g.per_block() == 1 ? dim
                                         : absl::StrCat("ceil(", dim, " / ",
                                                        g.per_block(), ")"));
}

absl::string_view CollectiveName(fb::CollectiveKind kind) {
  switch (kind) {
    case fb::CollectiveKind::AllReduce:
      return "all_reduce";
    case fb::CollectiveKind::AllGather:
      return "all_gather";
    case fb::CollectiveKind::Broadcast:
      return "broadcast";
    case fb::CollectiveKind::AllToAll:
      return "all_to_all";
  }
  return "";
}

std::string LabelOf(const fb::Kernel& k) {
  return k.label() != nullptr ? k.label()->str() : k.entry()->str();
}

Value StepJson(const fb::Plan& plan, const fb::Target& target,
               const fb::Program& program, int i) {
  const fb::Step& step = *program.steps()->Get(i);
  Value v = Value::Object();
  v.Set("step", i);
  v.Set("name", step.name()->str());
  if (step.layer() >= 0) v.Set("layer", step.layer());
  int32_t output = -1;
  std::vector<std::string> reads;
  if (const fb::LaunchStep* s = step.launch()) {
    v.Set("kind", "launch");
    v.Set("op", LabelOf(*target.kernels()->Get(s->kernel())));
    v.Set("kernel", s->kernel());
    for (const fb::OperandRef* o : *s->operands()) {
      reads.push_back(OperandText(plan, program, *o));
    }
    std::vector<std::string> grid;
    for (const fb::GridDim* g : *s->grid()) {
      grid.push_back(GridText(*g, program));
    }
    v.Set("grid", json::Value(absl::StrJoin(grid, ", ")));
    v.Set("block", json::Value(absl::StrJoin(*s->block(), ", ")));
    v.Set("shared_bytes", static_cast<int64_t>(s->shared_bytes()));
    v.Set("programmatic", s->programmatic());
    output = s->outputs()->Get(0);
  } else if (const fb::GemmStep* g = step.gemm()) {
    v.Set("kind", "gemm");
    v.Set("op", "gemm");
    reads = {
        Name(program, g->a()),
        absl::StrCat("@", plan.weights()->Get(g->weight())->name()->str())};
    if (g->residual() >= 0) {
      reads.push_back(absl::StrCat("residual=", Name(program, g->residual())));
    }
    output = g->output();
  } else if (const fb::CollectiveStep* c = step.collective()) {
    v.Set("kind", "collective");
    v.Set("op", CollectiveName(c->kind()));
    v.Set("sequence", static_cast<int64_t>(c->sequence()));
    reads = {Name(program, c->input())};
    output = c->output();
  } else if (const fb::CopyStep* s = step.copy()) {
    v.Set("kind", "copy");
    v.Set("op", "copy");
    reads = {Name(program, s->input())};
    output = s->output();
  }
  v.Set("reads", json::Value(absl::StrJoin(reads, ", ")));
  const fb::Buffer& out = *program.buffers()->Get(output);
  v.Set("type", BufferType(out, program));
  v.Set("slot", out.slot());
  return v;
}

Value KernelsJson(const fb::Target& target) {
  std::vector<int64_t> launches(target.kernels()->size());
  for (const fb::Program* p : *target.programs()) {
    for (const fb::Step* s : *p->steps()) {
      if (s->launch() != nullptr) ++launches[s->launch()->kernel()];
    }
  }
  Value list = Value::Array();
  for (size_t i = 0; i < launches.size(); ++i) {
    const fb::Kernel& k = *target.kernels()->Get(i);
    Value row = Value::Object();
    row.Set("kernel", static_cast<int64_t>(i));
    row.Set("label", LabelOf(k));
    row.Set("launches", launches[i]);
    row.Set("offset", static_cast<int64_t>(k.offset()));
    row.Set("bytes", static_cast<int64_t>(k.bytes()));
    row.Set("entry", k.entry()->str());
    list.Add(std::move(row));
  }
  return list;
}

std::string Text(const Value& v, absl::string_view key) {
  const Value* f = v.Find(key);
  if (f == nullptr) return "";
  return f->is_string() ? f->as_string() : json::Write(*f);
}

}  // namespace

Value GpuTargetJson(const fb::Plan& plan, const fb::Target& target) {
  Value v = Value::Object();
  v.Set("target", target.name()->str());
  v.Set("sync_words", target.sync_words());
  // Images that kernels share count once.
  int64_t bytes = 0;
  std::set<uint64_t> seen;
  if (target.kernels() != nullptr) {
    for (const fb::Kernel* k : *target.kernels()) {
      if (seen.insert(k->offset()).second) bytes += k->bytes();
    }
  }
  v.Set("image_bytes", bytes);
  v.Set("kernels",
        target.kernels() != nullptr ? KernelsJson(target) : Value::Array());
  Value programs = Value::Array();
  for (const fb::Program* p : *target.programs()) {
    Value program = Value::Object();
    program.Set("name", p->name()->str());
    program.Set("bucket", p->bucket());
    program.Set("tile_tokens", p->tile_tokens());
    program.Set("memory", ArenaJson(*p));
    Value steps = Value::Array();
    for (size_t i = 0; i < p->steps()->size(); ++i) {
      steps.Add(StepJson(plan, target, *p, static_cast<int>(i)));
    }
    program.Set("steps", std::move(steps));
    programs.Add(std::move(program));
  }
  v.Set("programs", std::move(programs));
  return v;
}

std::string GpuTargetText(const Value& v) {
  std::string out = absl::StrFormat(
      "\ntarget %s: %d kernels, %s bytes of machine code, %s sync words\n",
      Text(v, "target"), v.Find("kernels")->items().size(),
      Text(v, "image_bytes"), Text(v, "sync_words"));
  absl::StrAppendFormat(&out, "  %6s %9s %8s  %s\n", "kernel", "bytes",
                        "launches", "label");
  for (const Value& k : v.Find("kernels")->items()) {
    absl::StrAppendFormat(&out, "  %6s %9s %8s  %s\n", Text(k, "kernel"),
                          Text(k, "bytes"), Text(k, "launches"),
                          Text(k, "label"));
  }
  for (const Value& p : v.Find("programs")->items()) {
    const Value& memory = *p.Find("memory");
    absl::StrAppendFormat(&out,
                          "\nprogram %s of %s (bucket %s): arena %s (at %s)\n",
                          Text(p, "name"), Text(v, "target"), Text(p, "bucket"),
                          Text(memory, "arena_bytes"), Text(memory, "dims"));
    for (const Value& s : p.Find("steps")->items()) {
      absl::StrAppendFormat(&out, "  %4s  %%%s = %s(%s) : %s in slot %s",
                            Text(s, "step"), Text(s, "name"), Text(s, "op"),
                            Text(s, "reads"), Text(s, "type"), Text(s, "slot"));
      if (s.Find("grid") != nullptr) {
        absl::StrAppendFormat(
            &out, " grid(%s) block(%s)%s", Text(s, "grid"), Text(s, "block"),
            Text(s, "programmatic") == "true" ? " early" : "");
      }
      absl::StrAppend(&out, "\n");
    }
  }
  return out;
}

}  // namespace deepslice
