#include "tools/known_plan.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/pipeline.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/plan_files.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadJson(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  absl::StatusOr<json::Value> v = json::Parse(text);
  if (!v.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", v.status().message(), "; recopy it"));
  }
  return v;
}

absl::string_view SourceOf(const Plan& plan) {
  const auto* bytes = plan.fb().source();
  if (bytes == nullptr) return "{}";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

std::string TextOf(const flatbuffers::String* s) {
  return s == nullptr ? "" : s->str();
}

std::vector<std::pair<std::string, std::string>> Named(
    const flatbuffers::Vector<flatbuffers::Offset<fb::NamedText>>* list) {
  std::vector<std::pair<std::string, std::string>> out;
  if (list == nullptr) return out;
  for (const fb::NamedText* t : *list) {
    out.emplace_back(t->name()->str(), t->text()->str());
  }
  return out;
}

template <typename T>
std::vector<T> Numbers(const flatbuffers::Vector<T>* list) {
  return list == nullptr ? std::vector<T>()
                         : std::vector<T>(list->begin(), list->end());
}

GenerationSettings GenerationOf(const fb::GenerationDefaults* g) {
  GenerationSettings out;
  if (g == nullptr) return out;
  out.eos_ids = Numbers(g->eos_ids());
  out.bos_id = g->bos_id();
  out.pad_id = g->pad_id();
  out.do_sample = g->do_sample();
  out.temperature = g->temperature();
  out.top_k = g->top_k();
  out.top_p = g->top_p();
  out.min_p = g->min_p();
  out.typical_p = g->typical_p();
  out.repetition_penalty = g->repetition_penalty();
  out.max_new_tokens = g->max_new_tokens();
  out.min_new_tokens = g->min_new_tokens();
  out.num_beams = g->num_beams();
  out.length_penalty = g->length_penalty();
  out.early_stopping = g->early_stopping();
  out.num_return_sequences = g->num_return_sequences();
  out.suppress_tokens = Numbers(g->suppress_tokens());
  return out;
}

bool HasTarget(const fb::Plan& plan, absl::string_view name) {
  for (const fb::Target* t : *plan.targets()) {
    if (t->name()->str() == name) return true;
  }
  return false;
}

bool Encodes(const fb::Plan& plan) {
  const fb::Program* p = plan.reference();
  if (p == nullptr) p = plan.targets()->Get(0)->programs()->Get(0);
  return p->kind() == fb::ProgramKind::Encode;
}

json::Value MemberOf(const json::Value& v, absl::string_view name) {
  const json::Value* m = v.Find(name);
  return m == nullptr ? json::Value() : *m;
}

absl::Status ReadOriginOf(const std::string& verb, KnownPlan* known) {
  const std::vector<Plan>& ranks = known->ranks;
  const std::string where = JoinPath(known->folder, RankFileName(0, ".plan"));
  absl::StatusOr<PlanOrigin> origin = ReadOrigin(SourceOf(ranks[0]));
  if (!origin.ok()) return Annotate(origin.status(), where);
  known->origin = *std::move(origin);
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (SourceOf(ranks[r]) == SourceOf(ranks[0])) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s: rank %d was made from another source than rank 0; copy the plan "
        "again",
        known->folder, r));
  }
  if (known->origin.tp != static_cast<int>(ranks.size())) {
    return absl::DataLossError(absl::StrFormat(
        "%s: source: says %d ranks, the plan has %d; copy the plan again",
        where, known->origin.tp, ranks.size()));
  }
  if (known->origin.ranks_edited) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: its ranks were edited (dscompile --start-from), so they are no "
        "cuts of one graph, which %s needs; compile the source again",
        known->folder, verb));
  }
  absl::StatusOr<Graph> unsliced = ParseGraph(known->origin.ir, "ir");
  if (!unsliced.ok()) {
    // The first line alone: the others show the text.
    const std::string message(unsliced.status().message());
    return absl::DataLossError(
        absl::StrCat(where, ": source: ", message.substr(0, message.find('\n')),
                     "; copy the plan again or compile it anew"));
  }
  if (const absl::Status s = VerifyGraph(*unsliced); !s.ok()) {
    // Of a compiler's own graph it would be an internal error.
    return absl::DataLossError(
        absl::StrCat(where, ": source: ", s.message(),
                     "; copy the plan again or compile it anew"));
  }
  known->unsliced = *std::move(unsliced);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KeptFile>> KnownPlan::SourceFiles() const {
  std::vector<KeptFile> out;
  for (const ManifestFile& f : manifest.files) {
    if (!absl::StartsWith(f.name, kSourceFilePrefix)) continue;
    KeptFile file;
    file.name = f.name;
    DS_ASSIGN_OR_RETURN(file.file, MappedFile::Open(JoinPath(folder, f.name)));
    out.push_back(std::move(file));
  }
  return out;
}

PlanContents KnownPlan::Contents() const {
  const fb::Plan& plan = ranks[0].fb();
  PlanContents c;
  c.family = TextOf(plan.family());
  c.vocab_size = plan.vocab_size();
  c.max_positions = plan.max_positions();
  c.ceilings = origin.ceilings;
  c.cpu = HasTarget(plan, "cpu");
  c.encodes = Encodes(plan);
  if (plan.encoder() != nullptr) {
    c.encoder.emplace();
    plan.encoder()->UnPackTo(&*c.encoder);
  }
  c.published.clear();
  if (plan.published() != nullptr) {
    for (const fb::PublishedName* p : *plan.published()) {
      c.published.emplace_back(p->published()->str(), p->buffer()->str());
    }
  }
  if (plan.tokenizer() != nullptr) {
    c.tokenizer.assign(reinterpret_cast<const char*>(plan.tokenizer()->data()),
                       plan.tokenizer()->size());
  }
  c.chat.templates.text = TextOf(plan.chat_template());
  c.chat.templates.named = Named(plan.named_templates());
  c.chat.tokens = Named(plan.template_tokens());
  c.generation = GenerationOf(plan.generation());
  if (plan.self_tests() != nullptr) {
    for (const fb::SelfTest* t : *plan.self_tests()) {
      c.golden.push_back({Numbers(t->prompt()), Numbers(t->continuation())});
    }
  }
  if (plan.render_tests() != nullptr) {
    for (const fb::RenderTest* t : *plan.render_tests()) {
      RenderedConversation r;
      r.messages = t->messages()->str();
      r.text = t->text()->str();
      if (t->ids() != nullptr) r.ids = Numbers(t->ids());
      c.rendered.push_back(std::move(r));
    }
  }
  c.coverage = MemberOf(report, "coverage");
  c.quantised = MemberOf(report, "quantised");
  c.policy = MemberOf(report, "policy");
  const json::Value decisions = MemberOf(report, "decisions");
  for (const json::Value& line : decisions.items()) {
    if (line.is_string()) c.decisions.push_back(line.as_string());
  }
  c.sources = MemberOf(MemberOf(manifest_json, "provenance"), "sources");
  return c;
}

absl::StatusOr<std::unique_ptr<KnownPlan>> LoadKnownPlan(
    const std::string& folder, const std::string& verb, int threads) {
  auto known = std::make_unique<KnownPlan>();
  known->folder = folder;
  DS_ASSIGN_OR_RETURN(known->manifest, ReadManifest(folder));
  DS_RETURN_IF_ERROR(VerifyManifest(folder));
  for (const ManifestFile& f : known->manifest.files) {
    // Of weights their blocks' hashes are compared, below.
    if (absl::EndsWith(f.name, ".weights")) continue;
    DS_RETURN_IF_ERROR(VerifyFile(folder, f));
  }
  DS_ASSIGN_OR_RETURN(known->manifest_json,
                      ReadJson(JoinPath(folder, "manifest.json")));
  DS_ASSIGN_OR_RETURN(known->report, ReadJson(JoinPath(folder, "report.json")));
  for (int r = 0; r < known->manifest.world_size; ++r) {
    DS_ASSIGN_OR_RETURN(Plan plan, Plan::Load(folder, r, {.threads = threads}));
    known->ranks.push_back(std::move(plan));
  }
  DS_RETURN_IF_ERROR(ReadOriginOf(verb, known.get()));
  if (known->manifest.Find(kExactTensorsFile) != nullptr) {
    const std::string path = JoinPath(folder, kExactTensorsFile);
    DS_ASSIGN_OR_RETURN(known->exact_file, MappedFile::Open(path));
    DS_ASSIGN_OR_RETURN(known->exact,
                        ReadSafetensorsHeader(known->exact_file.bytes(), path));
  }
  absl::StatusOr<CompiledGraphs> graphs = RunRankPasses(
      known->unsliced.Clone(), known->origin.tp, known->origin.passes);
  if (!graphs.ok()) return Annotate(graphs.status(), folder);
  known->graphs = std::move(graphs->ranks);
  absl::StatusOr<std::unique_ptr<PlanSupply>> supply =
      PlanSupply::Create(known->ranks, known->graphs);
  if (!supply.ok()) return Annotate(supply.status(), folder);
  known->supply = *std::move(supply);
  return known;
}

}  // namespace deepslice
