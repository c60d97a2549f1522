#include "tools/plan_inspect.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/synthetic_weights.h"
#include "schema/base/checked_math.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"
#include "schema/ops.h"
#include "schema/roles.h"
#include "tools/plan_inspect_gpu.h"
#include "tools/plan_source.h"
#include "tools/plan_view.h"

namespace deepslice {
namespace {

std::string ExtentText(const fb::Extent& e, const fb::Program& program) {
  return e.dim() < 0 ? absl::StrCat(e.size())
                     : program.dims()->Get(e.dim())->name()->str();
}

json::Value StepJson(const fb::Plan& plan, const fb::Program& program, int i) {
  const fb::Step& step = *program.steps()->Get(i);
  json::Value v = json::Value::Object();
  v.Set("step", i);
  v.Set("name", step.name()->str());
  v.Set("kind",
        step.kind() == fb::StepKind::Collective ? "collective" : "cpu_op");
  if (step.layer() >= 0) v.Set("layer", step.layer());
  int output;
  if (const fb::CollectiveStep* c = step.collective()) {
    output = c->output();
    v.Set("op", c->kind() == fb::CollectiveKind::AllGather ? "all_gather"
                                                           : "all_reduce");
    v.Set("sequence", static_cast<int64_t>(c->sequence()));
    v.Set("reads",
          json::Value(absl::StrCat(
              "%", program.buffers()->Get(c->input())->name()->str())));
  } else {
    const fb::CpuOpStep& op = *step.cpu_op();
    output = op.output();
    const OpDef& def = *FindOpByTag(op.op());
    v.Set("op", def.spelling);
    std::vector<std::string> reads;
    for (size_t k = 0; k < op.operands()->size(); ++k) {
      const fb::OperandRef& o = *op.operands()->Get(k);
      const std::string prefix = def.operands[k].optional
                                     ? absl::StrCat(def.operands[k].name, "=")
                                     : "";
      if (o.kind() == fb::OperandKind::Buffer) {
        reads.push_back(prefix + "%" +
                        program.buffers()->Get(o.index())->name()->str());
      } else if (o.kind() == fb::OperandKind::Weight) {
        reads.push_back(prefix + "@" +
                        plan.weights()->Get(o.index())->name()->str());
      }
    }
    v.Set("reads", json::Value(absl::StrJoin(reads, ", ")));
    json::Value attrs = json::Value::Object();
    for (size_t k = 0; op.attrs() != nullptr && k < op.attrs()->size(); ++k) {
      const fb::AttrValue& a = *op.attrs()->Get(k);
      const AttrDef& d = def.attrs[k];
      if (d.type == AttrType::kF64) {
        attrs.Set(d.name, a.f());
      } else if (d.type == AttrType::kEnum) {
        attrs.Set(d.name, EnumValues(d.enum_name)[a.i()]);
      } else {
        attrs.Set(d.name, a.i());
      }
    }
    if (!attrs.members().empty()) v.Set("attributes", std::move(attrs));
    if (op.state() >= 0) {
      v.Set("state", plan.states()->Get(op.state())->name()->str());
    }
  }
  const fb::Buffer& out = *program.buffers()->Get(output);
  v.Set("type", BufferType(out, program));
  v.Set("slot", out.slot());
  return v;
}

// Sizes that all targets share.
void AddSharedMemory(const fb::Plan& plan, json::Value* v) {
  int64_t per_block = 0, block = 0, per_source = 0, source = 0;
  for (const fb::State* s : *plan.states()) {
    const bool cross = s->kind() == fb::StateKind::Cross;
    (cross ? per_source : per_block) += s->bytes_per_block();
    (cross ? source : block) = s->block_tokens();
  }
  v->Set("cache_bytes_per_block", per_block);
  v->Set("cache_block_tokens", block);
  if (source > 0) {
    v->Set("source_bytes_per_sequence", per_source);
    v->Set("source_tokens", source);
  }
  v->Set("weights_bytes", static_cast<int64_t>(WeightMemoryBytes(plan)));
}

json::Value WeightsJson(const fb::Plan& plan) {
  json::Value list = json::Value::Array();
  for (const fb::Weight* w : *plan.weights()) {
    json::Value row = json::Value::Object();
    row.Set("name", w->name()->str());
    row.Set("role", GetRole(static_cast<Role>(w->role())).spelling);
    row.Set("encoding", EncodingName(static_cast<Encoding>(w->encoding())));
    json::Value shape = json::Value::Array();
    for (const int64_t d : *w->shape()) shape.Add(d);
    row.Set("shape", std::move(shape));
    row.Set("offset", static_cast<int64_t>(w->offset()));
    row.Set("bytes", static_cast<int64_t>(w->bytes()));
    if (w->scales_bytes() > 0) {
      row.Set("scales_offset", static_cast<int64_t>(w->scales_offset()));
    }
    if (w->source() != nullptr) row.Set("source", w->source()->str());
    // As text: JSON's integers end at 2^63.
    if (w->origin() == fb::WeightOrigin::Synthetic) {
      row.Set("seed", absl::StrCat(w->seed()));
    }
    list.Add(std::move(row));
  }
  return list;
}

std::string Shape(const json::Value& shape) {
  std::vector<std::string> dims;
  for (const json::Value& d : shape.items()) {
    dims.push_back(absl::StrCat(d.as_int()));
  }
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

std::string Text(const json::Value& v, absl::string_view key) {
  const json::Value* f = v.Find(key);
  if (f == nullptr) return "";
  return f->is_string() ? f->as_string() : json::Write(*f);
}

// The slots, steps and collectives of the CPU's program.
void AppendCpuProgram(const json::Value& v, std::string* out) {
  absl::StrAppendFormat(out, "  %4s %12s %12s  %s\n", "slot", "offset", "bytes",
                        "formula");
  for (const json::Value& s : v.Find("memory")->Find("slots")->items()) {
    absl::StrAppendFormat(out, "  %4s %12s %12s  %s\n", Text(s, "slot"),
                          Text(s, "offset"), Text(s, "bytes"),
                          Text(s, "formula"));
  }
  absl::StrAppend(out, "\nsteps\n");
  for (const json::Value& s : v.Find("steps")->items()) {
    absl::StrAppendFormat(out, "  %4s  %%%s = %s(%s)", Text(s, "step"),
                          Text(s, "name"), Text(s, "op"), Text(s, "reads"));
    if (const json::Value* a = s.Find("attributes")) {
      std::vector<std::string> attrs;
      for (const auto& [key, value] : a->members()) {
        attrs.push_back(absl::StrCat(
            key, "=",
            value.is_string() ? value.as_string() : json::Write(value)));
      }
      absl::StrAppend(out, " {", absl::StrJoin(attrs, ", "), "}");
    }
    if (s.Find("state") != nullptr) {
      absl::StrAppend(out, " state(@", Text(s, "state"), ")");
    }
    absl::StrAppend(out, " : ", Text(s, "type"), " in slot ", Text(s, "slot"),
                    "\n");
  }
  absl::StrAppend(out, "\ncollectives\n");
  for (const json::Value& s : v.Find("collectives")->items()) {
    absl::StrAppendFormat(out, "  %4s  %s %%%s : %s (step %s)\n",
                          Text(s, "sequence"), Text(s, "op"), Text(s, "name"),
                          Text(s, "type"), Text(s, "step"));
  }
}

}  // namespace

std::string BufferType(const fb::Buffer& b, const fb::Program& program) {
  std::vector<std::string> dims;
  for (const fb::Extent* e : *b.extents()) {
    dims.push_back(ExtentText(*e, program));
  }
  return absl::StrCat(DTypeName(static_cast<DType>(b.dtype())), "[",
                      absl::StrJoin(dims, ", "), "]");
}

json::Value ArenaJson(const fb::Program& program) {
  json::Value v = json::Value::Object();
  json::Value dims = json::Value::Object();
  for (const fb::NamedDim* d : *program.dims()) {
    dims.Set(d->name()->str(), d->maximum());
  }
  v.Set("dims", std::move(dims));
  json::Value slots = json::Value::Array();
  int64_t arena = 0;
  for (const fb::Slot* s : *program.slots()) {
    const int64_t n =
        s->dim() < 0 ? 0 : program.dims()->Get(s->dim())->maximum();
    const int64_t bytes = RoundUp(s->bytes() + s->bytes_per_unit() * n, 256);
    json::Value row = json::Value::Object();
    row.Set("slot", static_cast<int64_t>(slots.items().size()));
    row.Set("offset", arena);
    row.Set("bytes", bytes);
    row.Set("formula",
            s->dim() < 0 ? json::Value(absl::StrCat(s->bytes()))
                         : json::Value(absl::StrCat(
                               s->bytes_per_unit(), " * ",
                               program.dims()->Get(s->dim())->name()->str())));
    slots.Add(std::move(row));
    arena += bytes;
  }
  v.Set("arena_bytes", arena);
  v.Set("slots", std::move(slots));
  return v;
}

json::Value EncoderJson(const fb::EncoderSettings& e) {
  json::Value v = json::Value::Object();
  if (e.architecture() != nullptr) {
    v.Set("architecture", e.architecture()->str());
  }
  v.Set("types", int64_t{e.types()});
  v.Set("pooling", fb::EnumNamePooling(e.pooling()));
  json::Value labels = json::Value::Array();
  if (e.labels() != nullptr) {
    for (const flatbuffers::String* l : *e.labels()) labels.Add(l->str());
  }
  v.Set("scores", fb::EnumNameScores(e.scores()));
  v.Set("labels", std::move(labels));
  if (e.max_tokens() > 0) v.Set("max_tokens", int64_t{e.max_tokens()});
  if (e.pad_id() >= 0) v.Set("pad_id", int64_t{e.pad_id()});
  if (e.start_id() >= 0) v.Set("decoder_start_id", int64_t{e.start_id()});
  return v;
}

json::Value InspectRank(const Plan& plan, const json::Value& manifest) {
  const fb::Plan& p = plan.fb();
  const fb::Program* program = CpuProgram(plan);
  json::Value v = json::Value::Object();
  v.Set("schema_version", 1);
  v.Set("rank", plan.rank());
  v.Set("world_size", plan.world_size());
  json::Value mesh = json::Value::Object();
  for (const fb::Axis* a : *p.mesh()) {
    mesh.Set(a->name()->str(), static_cast<int64_t>(a->size()));
  }
  v.Set("mesh", std::move(mesh));
  v.Set("family", p.family()->str());
  v.Set("vocab_size", p.vocab_size());
  v.Set("max_positions", p.max_positions());
  v.Set("plan_set_id", p.plan_set_id()->str());
  json::Value memory =
      program != nullptr ? ArenaJson(*program) : json::Value::Object();
  AddSharedMemory(p, &memory);
  v.Set("memory", std::move(memory));
  json::Value steps = json::Value::Array();
  json::Value collectives = json::Value::Array();
  for (size_t i = 0; program != nullptr && i < program->steps()->size(); ++i) {
    json::Value step = StepJson(p, *program, static_cast<int>(i));
    if (step.Find("sequence") != nullptr) collectives.Add(step);
    steps.Add(std::move(step));
  }
  v.Set("steps", std::move(steps));
  v.Set("collectives", std::move(collectives));
  json::Value gpus = json::Value::Array();
  for (const fb::Target* t : *p.targets()) {
    if (t->name()->string_view() == "cpu") continue;
    gpus.Add(GpuTargetJson(p, *t));
  }
  v.Set("gpu_targets", std::move(gpus));
  v.Set("weights", WeightsJson(p));
  json::Value text = json::Value::Object();
  text.Set("tokenizer_bytes",
           static_cast<int64_t>(p.tokenizer() ? p.tokenizer()->size() : 0));
  text.Set("chat_template",
           p.chat_template() != nullptr && p.chat_template()->size() > 0);
  json::Value eos = json::Value::Array();
  if (p.generation() != nullptr && p.generation()->eos_ids() != nullptr) {
    for (const int32_t id : *p.generation()->eos_ids()) eos.Add(id);
  }
  text.Set("eos_ids", std::move(eos));
  text.Set("golden_sequences",
           static_cast<int64_t>(p.self_tests() ? p.self_tests()->size() : 0));
  v.Set("text", std::move(text));
  if (p.encoder() != nullptr) v.Set("encoder", EncoderJson(*p.encoder()));
  if (const json::Value* provenance = manifest.Find("provenance")) {
    v.Set("provenance", *provenance);
  }
  const json::Value source = PlanSource(plan);
  for (absl::string_view key : {"policy", "decisions"}) {
    if (const json::Value* found = source.Find(key)) v.Set(key, *found);
  }
  return v;
}

std::string InspectText(const json::Value& v) {
  std::string out;
  absl::StrAppendFormat(
      &out, "plan %s, rank %s of %s (%s), vocabulary %s, positions %s\n",
      Text(v, "plan_set_id"), Text(v, "rank"), Text(v, "world_size"),
      Text(v, "family"), Text(v, "vocab_size"), Text(v, "max_positions"));
  if (const json::Value* p = v.Find("provenance")) {
    absl::StrAppend(&out, "\nmade by deepslice ", Text(*p, "compiler"),
                    " with ", Text(*p, "options"), "\n");
    const json::Value* sources = p->Find("sources");
    for (size_t i = 0; sources != nullptr && i < sources->items().size(); ++i) {
      const json::Value& s = sources->items()[i];
      absl::StrAppendFormat(&out, "  from %s, %s bytes, sha256 %s\n",
                            Text(s, "name"), Text(s, "bytes"),
                            Text(s, "sha256"));
    }
  }
  if (const json::Value* decisions = v.Find("decisions")) {
    absl::StrAppend(&out, "\nautomatic policy, from the tensors' names:\n");
    for (const json::Value& line : decisions->items()) {
      absl::StrAppend(&out, "  ", line.as_string(), "\n");
    }
  } else if (v.Find("policy") != nullptr) {
    absl::StrAppend(&out, "\npolicy of the user's (--policy); --json prints it\n");
  }
  const json::Value& memory = *v.Find("memory");
  const bool cpu = memory.Find("slots") != nullptr;
  absl::StrAppendFormat(
      &out, "\nmemory: weights %s, %scache %s bytes per block of %s tokens\n",
      Text(memory, "weights_bytes"),
      cpu ? absl::StrFormat("arena %s (at %s), ", Text(memory, "arena_bytes"),
                            Text(memory, "dims"))
          : "",
      Text(memory, "cache_bytes_per_block"),
      Text(memory, "cache_block_tokens"));
  if (cpu) AppendCpuProgram(v, &out);
  for (const json::Value& t : v.Find("gpu_targets")->items()) {
    absl::StrAppend(&out, GpuTargetText(t));
  }
  absl::StrAppendFormat(&out, "\nweights\n  %12s %12s  %-7s %s\n", "offset",
                        "bytes", "coding", "name, shape, source");
  for (const json::Value& w : v.Find("weights")->items()) {
    absl::StrAppendFormat(
        &out, "  %12s %12s  %-7s @%s %s = %s%s\n", Text(w, "offset"),
        Text(w, "bytes"), Text(w, "encoding"), Text(w, "name"),
        Shape(*w.Find("shape")), Text(w, "source"),
        w.Find("seed") == nullptr
            ? ""
            : absl::StrCat(", made up from seed ", Text(w, "seed")));
  }
  if (const json::Value* e = v.Find("encoder")) {
    absl::StrAppend(&out, "\nencoder: ", json::Write(*e), "\n");
  }
  const json::Value& text = *v.Find("text");
  absl::StrAppendFormat(
      &out,
      "\ntext: tokenizer %s bytes, chat template %s, eos %s, %s golden "
      "sequences\n",
      Text(text, "tokenizer_bytes"),
      text.Find("chat_template")->as_bool() ? "yes" : "no",
      Text(text, "eos_ids"), Text(text, "golden_sequences"));
  return out;
}

}  // namespace deepslice
