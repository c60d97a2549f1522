#include "tools/plan_diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schema/base/digest.h"
#include "schema/encoding.h"
#include "tools/command_line.h"
#include "tools/line_diff.h"
#include "tools/plan_source.h"
#include "tools/plan_view.h"
#include "tools/weight_diff.h"

namespace deepslice {
namespace {

using json::Value;

// In the order in which text shows them.
constexpr const char* kAreas[] = {"options", "sources",    "mesh",    "passes",
                                  "steps",   "kernels",    "weights", "memory",
                                  "text",    "collectives"};

std::string TextOf(const Value* v) {
  if (v == nullptr) return "none";
  return v->is_string() ? v->as_string() : json::Write(*v);
}

std::string IdsText(const flatbuffers::Vector<int32_t>* ids) {
  return ids == nullptr ? "none" : absl::StrJoin(*ids, ",");
}

class Differ {
 public:
  Differ(const ComparedPlan& a, const ComparedPlan& b) : a_(a), b_(b) {}

  Value Run() {
    DiffProvenance();
    DiffGraphs();
    DiffTexts();
    const size_t world_a = a_.ranks.size(), world_b = b_.ranks.size();
    Add("mesh", "ranks", absl::StrCat(world_a), absl::StrCat(world_b));
    for (size_t r = 0; r < std::min(world_a, world_b); ++r) {
      DiffMemory(static_cast<int>(r));
      if (world_a != world_b) continue;  // every part is another one
      DiffPrograms(static_cast<int>(r));
      DiffKernels(static_cast<int>(r));
      DiffWeights(static_cast<int>(r));
    }
    Value out = Value::Object();
    out.Set("schema_version", 1);
    out.Set("a", a_.folder);
    out.Set("b", b_.folder);
    Value all = Value::Array();
    for (const char* area : kAreas) {
      for (Value& d : found_[area]) all.Add(std::move(d));
    }
    out.Set("same", all.items().empty());
    out.Set("differences", std::move(all));
    return out;
  }

 private:
  // Nothing when both are the same.
  void Add(const std::string& area, const std::string& what,
           const std::string& a, const std::string& b) {
    if (a == b) return;
    Value row = Value::Object();
    row.Set("area", area);
    row.Set("what", what);
    row.Set("a", a);
    row.Set("b", b);
    found_[area].push_back(std::move(row));
  }

  static const Value* Provenance(const ComparedPlan& p, const char* key) {
    const Value* provenance = p.manifest.Find("provenance");
    return provenance == nullptr ? nullptr : provenance->Find(key);
  }

  void DiffProvenance() {
    for (const char* key : {"compiler", "nvrtc"}) {
      Add("options", key, TextOf(Provenance(a_, key)),
          TextOf(Provenance(b_, key)));
    }
    const Value* options_a = Provenance(a_, "options");
    const Value* options_b = Provenance(b_, "options");
    std::set<std::string> keys;
    for (const Value* o : {options_a, options_b}) {
      if (o == nullptr) continue;
      for (const auto& [key, value] : o->members()) keys.insert(key);
    }
    for (const std::string& key : keys) {
      Add("options", key,
          TextOf(options_a == nullptr ? nullptr : options_a->Find(key)),
          TextOf(options_b == nullptr ? nullptr : options_b->Find(key)));
    }
    const auto sources = [](const Value* list) {
      std::map<std::string, std::string> out;
      for (size_t i = 0; list != nullptr && i < list->items().size(); ++i) {
        const Value& s = list->items()[i];
        out[TextOf(s.Find("name"))] =
            absl::StrCat(TextOf(s.Find("bytes")), " bytes, sha256 ",
                         TextOf(s.Find("sha256")));
      }
      return out;
    };
    DiffMaps("sources", "", sources(Provenance(a_, "sources")),
             sources(Provenance(b_, "sources")));
    const auto passes = [](const Value* list) {
      std::vector<std::string> names;
      for (size_t i = 0; list != nullptr && i < list->items().size(); ++i) {
        names.push_back(TextOf(&list->items()[i]));
      }
      return absl::StrJoin(names, ", ");
    };
    Add("passes", "that changed the graph", passes(Provenance(a_, "passes")),
        passes(Provenance(b_, "passes")));
  }

  void DiffMaps(const std::string& area, const std::string& where,
                const std::map<std::string, std::string>& a,
                const std::map<std::string, std::string>& b) {
    std::set<std::string> names;
    for (const auto* m : {&a, &b}) {
      for (const auto& [name, text] : *m) names.insert(name);
    }
    for (const std::string& name : names) {
      const auto at = a.find(name), bt = b.find(name);
      Add(area, where + name, at == a.end() ? "none" : at->second,
          bt == b.end() ? "none" : bt->second);
    }
  }

  void DiffLists(const std::string& area, const std::string& where,
                 const std::vector<std::string>& a,
                 const std::vector<std::string>& b) {
    for (const LineChange& c : DiffLines(a, b)) {
      Add(area, absl::StrCat(where, c.line), c.added ? "" : c.text,
          c.added ? c.text : "");
    }
  }

  // The graph before slicing, as the plan keeps it for its tools.
  static std::vector<std::string> GraphLines(const Plan& plan) {
    const Value source = PlanSource(plan);
    const Value* ir = source.Find("ir");
    if (ir == nullptr || !ir->is_string()) return {};
    return absl::StrSplit(ir->as_string(), '\n');
  }

  void DiffGraphs() {
    DiffLists("passes", "graph before slicing, line ", GraphLines(a_.ranks[0]),
              GraphLines(b_.ranks[0]));
  }

  void DiffPrograms(int rank) {
    std::map<std::string, ProgramSteps> a, b;
    for (ProgramSteps& p : ViewPrograms(a_.ranks[rank])) {
      a[absl::StrCat(p.target, "/", p.name)] = std::move(p);
    }
    for (ProgramSteps& p : ViewPrograms(b_.ranks[rank])) {
      b[absl::StrCat(p.target, "/", p.name)] = std::move(p);
    }
    const auto lines = [](const ProgramSteps& p, bool collectives) {
      std::vector<std::string> out;
      for (const StepView& s : p.steps) {
        if (collectives && !s.collective) continue;
        out.push_back(collectives
                          ? CollectiveLine(s)
                          : absl::StrCat("%", s.name, " = ", s.op, "(",
                                         absl::StrJoin(s.reads, ", "), ") {",
                                         s.detail, "} : ", s.type));
      }
      return out;
    };
    std::set<std::string> names;
    for (const auto* m : {&a, &b}) {
      for (const auto& [name, p] : *m) names.insert(name);
    }
    for (const std::string& name : names) {
      const std::string where = absl::StrCat("rank ", rank, ", ", name);
      if (a.count(name) == 0 || b.count(name) == 0) {
        Add("steps", where, a.count(name) ? "there" : "none",
            b.count(name) ? "there" : "none");
        continue;
      }
      DiffLists("steps", absl::StrCat(where, ", step "), lines(a[name], false),
                lines(b[name], false));
      DiffLists("collectives", absl::StrCat(where, ", number "),
                lines(a[name], true), lines(b[name], true));
    }
  }

  void DiffKernels(int rank) {
    const auto kernels = [](const Plan& plan) {
      std::map<std::string, std::string> out;
      for (const fb::Target* t : *plan.fb().targets()) {
        if (t->kernels() == nullptr) continue;
        for (const fb::Kernel* k : *t->kernels()) {
          const std::string name =
              k->label() != nullptr ? k->label()->str() : k->entry()->str();
          out[absl::StrCat(t->name()->str(), " ", name)] =
              absl::StrFormat("%d bytes, xxh3 %016x", k->bytes(), k->xxh3());
        }
      }
      return out;
    };
    DiffMaps("kernels", absl::StrCat("rank ", rank, ", "),
             kernels(a_.ranks[rank]), kernels(b_.ranks[rank]));
  }

  void DiffWeights(int rank) {
    const Plan &a = a_.ranks[rank], &b = b_.ranks[rank];
    const auto by_name = [](const Plan& plan) {
      std::map<std::string, int> out;
      for (uint32_t i = 0; i < plan.fb().weights()->size(); ++i) {
        out[plan.fb().weights()->Get(i)->name()->str()] = static_cast<int>(i);
      }
      return out;
    };
    const auto type = [](const Plan& plan, int i) {
      const fb::Weight& w = *plan.fb().weights()->Get(i);
      return absl::StrCat(EncodingName(static_cast<Encoding>(w.encoding())),
                          "[", absl::StrJoin(*w.shape(), ", "), "]");
    };
    const std::map<std::string, int> ia = by_name(a), ib = by_name(b);
    std::set<std::string> names;
    for (const auto* m : {&ia, &ib}) {
      for (const auto& [name, i] : *m) names.insert(name);
    }
    for (const std::string& name : names) {
      const std::string what = absl::StrCat("rank ", rank, ", @", name);
      const auto at = ia.find(name), bt = ib.find(name);
      if (at == ia.end() || bt == ib.end()) {
        Add("weights", what, at == ia.end() ? "none" : type(a, at->second),
            bt == ib.end() ? "none" : type(b, bt->second));
        continue;
      }
      const WeightDistance d = CompareWeights(a, at->second, b, bt->second);
      if (d.same_bytes) continue;
      Value row = Value::Object();
      row.Set("area", "weights");
      row.Set("what", what);
      row.Set("a", type(a, at->second));
      row.Set("b", type(b, bt->second));
      if (d.measured) {
        row.Set("relative_l2", d.relative_l2);
        row.Set("max_error", d.max_abs);
        row.Set("different_elements", d.different);
      }
      found_["weights"].push_back(std::move(row));
    }
  }

  void DiffMemory(int rank) {
    const auto memory = [](const Plan& plan) {
      std::map<std::string, std::string> out;
      out["weights"] = absl::StrCat(WeightMemoryBytes(plan.fb()), " bytes");
      out["caches, all sequences full"] =
          absl::StrCat(CacheBytesAtCeilings(plan), " bytes");
      for (const ProgramSteps& p : ViewPrograms(plan)) {
        out[absl::StrCat("arena of ", p.target, "/", p.name)] =
            absl::StrCat(p.arena_bytes, " bytes at ", p.ceilings);
      }
      return out;
    };
    DiffMaps("memory", absl::StrCat("rank ", rank, ", "),
             memory(a_.ranks[rank]), memory(b_.ranks[rank]));
  }

  void DiffTexts() {
    const auto texts = [](const fb::Plan& p) {
      std::map<std::string, std::string> out;
      out["family"] = p.family()->str();
      out["vocabulary"] = absl::StrCat(p.vocab_size());
      out["positions"] = absl::StrCat(p.max_positions());
      const auto digest = [](const char* data, size_t size) {
        return size == 0 ? std::string("none")
                         : absl::StrCat(size, " bytes, sha256 ",
                                        Sha256Hex({data, size}).substr(0, 16));
      };
      out["tokenizer"] =
          p.tokenizer() == nullptr
              ? "none"
              : digest(reinterpret_cast<const char*>(p.tokenizer()->data()),
                       p.tokenizer()->size());
      out["chat template"] =
          p.chat_template() == nullptr
              ? "none"
              : digest(p.chat_template()->c_str(), p.chat_template()->size());
      if (const fb::GenerationDefaults* g = p.generation()) {
        out["end-of-sequence ids"] = IdsText(g->eos_ids());
        out["generation defaults"] = absl::StrFormat(
            "sample %s, temperature %g, top-k %d, top-p %g, bos %d, pad %d",
            g->do_sample() ? "yes" : "no", g->temperature(), g->top_k(),
            g->top_p(), g->bos_id(), g->pad_id());
      }
      std::vector<std::string> golden;
      if (p.self_tests() != nullptr) {
        for (const fb::SelfTest* t : *p.self_tests()) {
          golden.push_back(absl::StrCat(IdsText(t->prompt()), " -> ",
                                        IdsText(t->continuation())));
        }
      }
      out["golden ids"] = golden.empty() ? "none" : absl::StrJoin(golden, "; ");
      return out;
    };
    DiffMaps("text", "", texts(a_.ranks[0].fb()), texts(b_.ranks[0].fb()));
  }

  const ComparedPlan &a_, &b_;
  std::map<std::string, std::vector<Value>> found_;
};

// "f32[8, 4] | i8_row[8, 4], relative L2 3.1e-03, max error 0.012"
std::string LineOf(const Value& d) {
  const std::string a = TextOf(d.Find("a")), b = TextOf(d.Find("b"));
  std::string out = absl::StrCat(TextOf(d.Find("what")), ": ",
                                 a.empty()   ? absl::StrCat("+ ", b)
                                 : b.empty() ? absl::StrCat("- ", a)
                                 : a == b    ? a
                                             : absl::StrCat(a, " | ", b));
  if (const Value* l2 = d.Find("relative_l2")) {
    absl::StrAppendFormat(&out,
                          ", relative L2 %.2e, max error %.2e, %d elements",
                          l2->as_double(), d.Find("max_error")->as_double(),
                          d.Find("different_elements")->as_int());
  }
  return OneLine(out);
}

}  // namespace

Value DiffPlans(const ComparedPlan& a, const ComparedPlan& b) {
  return Differ(a, b).Run();
}

std::string DiffText(const Value& diff, int lines) {
  if (diff.Find("same")->as_bool()) return "the plans are the same\n";
  std::map<std::string, std::vector<const Value*>> areas;
  for (const Value& d : diff.Find("differences")->items()) {
    areas[TextOf(d.Find("area"))].push_back(&d);
  }
  std::string out;
  for (const char* area : kAreas) {
    const std::vector<const Value*>& rows = areas[area];
    if (rows.empty()) continue;
    absl::StrAppendFormat(&out, "%s: %d difference%s\n", area, rows.size(),
                          rows.size() == 1 ? "" : "s");
    for (size_t i = 0; i < rows.size(); ++i) {
      if (lines > 0 && i == static_cast<size_t>(lines)) {
        absl::StrAppendFormat(&out, "  ... and %d more (--lines 0 or --json)\n",
                              rows.size() - i);
        break;
      }
      absl::StrAppend(&out, "  ", LineOf(*rows[i]), "\n");
    }
  }
  return out;
}

}  // namespace deepslice
