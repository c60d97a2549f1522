#include "tools/plan_html.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schema/encoding.h"
#include "schema/roles.h"
#include "tools/plan_chart.h"
#include "tools/plan_style.h"
#include "tools/plan_view.h"
#include "tools/progress.h"

namespace deepslice {
namespace {

using json::Value;

std::string E(absl::string_view text) { return EscapeHtml(text); }
std::string Code(absl::string_view text) {
  return absl::StrCat("<code>", E(text), "</code>");
}

std::string Plural(int64_t n, absl::string_view noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

std::string TextOf(const Value* v) {
  if (v == nullptr) return "";
  return v->is_string() ? v->as_string() : json::Write(*v);
}

std::string Tile(absl::string_view number, absl::string_view what) {
  return absl::StrCat("<div class=\"tile\"><b>", E(number), "</b><span>",
                      E(what), "</span></div>\n");
}

// Bytes of one rank by use; the arena is the largest program's.
struct RankMemory {
  int64_t weights = 0, cache = 0, arena = 0;
  double all() const {
    return static_cast<double>(weights) + static_cast<double>(cache) +
           static_cast<double>(arena);
  }
};

class Page {
 public:
  Page(absl::string_view title, const std::vector<Plan>& ranks,
       const Value& manifest)
      : title_(title), ranks_(ranks), manifest_(manifest) {
    for (const Plan& plan : ranks) {
      programs_.push_back(ViewPrograms(plan));
      RankMemory& m = memory_.emplace_back();
      m.weights = static_cast<int64_t>(WeightMemoryBytes(plan.fb()));
      m.cache = CacheBytesAtCeilings(plan);
      for (const ProgramSteps& p : programs_.back()) {
        m.arena = std::max(m.arena, p.arena_bytes);
      }
    }
  }

  std::string Write() {
    AddHead();
    AddMemory();
    AddPrograms();
    AddWeights();
    AddCollectives();
    AddText();
    AddProvenance();
    absl::StrAppend(&out_, "</main>\n</body>\n</html>\n");
    return std::move(out_);
  }

 private:
  const fb::Plan& first() const { return ranks_[0].fb(); }

  const Value* Provenance(absl::string_view key) const {
    const Value* p = manifest_.Find("provenance");
    return p == nullptr ? nullptr : p->Find(key);
  }
  std::string Option(absl::string_view key) const {
    const Value* o = Provenance("options");
    return o == nullptr ? "" : TextOf(o->Find(key));
  }

  void AddHead() {
    std::vector<std::string> targets;
    for (const fb::Target* t : *first().targets()) {
      targets.push_back(t->name()->str());
    }
    const std::string facts = absl::StrCat(
        first().family()->str(), ", ",
        Option("dtype").empty() ? "" : absl::StrCat(Option("dtype"), ", "),
        Plural(static_cast<int64_t>(ranks_.size()), "rank"), ", for ",
        absl::StrJoin(targets, ", "));
    absl::StrAppend(
        &out_,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
        "\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<title>",
        E(title_), " - plan</title>\n<style>\n", kPlanStyle[0].text,
        "</style>\n</head>\n<body>\n<main>\n<h1>", E(title_),
        "</h1>\n<p class=\"soft\">", E(facts), "; plan set ",
        Code(first().plan_set_id()->str()), "</p>\n");
    absl::StrAppend(
        &out_,
        "<nav><a href=\"#memory\">Memory</a><a href=\"#steps\">Steps</a><a "
        "href=\"#weights\">Weights</a><a href=\"#collectives\">Collectives</a>"
        "<a href=\"#text\">Text</a><a href=\"#origin\">Origin</a></nav>\n");
    double most = 0;
    for (const RankMemory& m : memory_) most = std::max(most, m.all());
    int64_t weights = 0;
    for (const RankMemory& m : memory_) {
      weights = std::max(weights, m.weights);
    }
    const ProgramSteps& program = programs_[0][0];
    int64_t collectives = 0;
    for (const StepView& s : program.steps) collectives += s.collective;
    absl::StrAppend(
        &out_, "<div class=\"tiles\">\n",
        Tile(BytesText(most), "memory of the largest rank"),
        Tile(BytesText(static_cast<double>(weights)), "of them weights"),
        Tile(absl::StrCat(program.steps.size()),
             absl::StrCat("steps of ", program.target, "/", program.name)),
        Tile(absl::StrCat(collectives), "collectives among them"),
        Tile(absl::StrCat(first().vocab_size()), "vocabulary"),
        Tile(absl::StrCat(first().max_positions()), "positions of the model"),
        "</div>\n");
  }

  void AddMemory() {
    double most = 1;
    for (const RankMemory& m : memory_) most = std::max(most, m.all());
    absl::StrAppend(
        &out_,
        "<section id=\"memory\">\n<h2>Memory of each rank</h2>\n<p "
        "class=\"soft\">What a run takes at the plan's ceilings: ",
        E(programs_[0][0].ceilings),
        " (T tokens and R rows of a step, S sequences of B cache blocks "
        "each). A run may lower them.</p>\n<div class=\"scroll\"><table>\n<tr>"
        "<th>Rank</th><th class=\"n\">Weights</th><th class=\"n\">Cache</th>"
        "<th class=\"n\">Arena</th><th class=\"n\">Together</th><th></th></tr>"
        "\n");
    for (size_t r = 0; r < memory_.size(); ++r) {
      const RankMemory& m = memory_[r];
      absl::StrAppendFormat(&out_, "<tr><td>%d</td>", r);
      for (const double bytes :
           {static_cast<double>(m.weights), static_cast<double>(m.cache),
            static_cast<double>(m.arena), m.all()}) {
        absl::StrAppend(&out_, "<td class=\"n\">", BytesText(bytes), "</td>");
      }
      absl::StrAppendFormat(
          &out_,
          "<td><div class=\"bar\"><i class=\"w\" style=\"width:%.2f%%\"></i><i "
          "class=\"c\" style=\"width:%.2f%%\"></i><i class=\"a\" "
          "style=\"width:%.2f%%\"></i></div></td></tr>\n",
          100 * m.weights / most, 100 * m.cache / most, 100 * m.arena / most);
    }
    absl::StrAppend(
        &out_,
        "</table></div>\n<div class=\"key\"><span><i class=\"w\"></i>weights"
        "</span><span><i class=\"c\"></i>keys and values</span><span><i "
        "class=\"a\"></i>arena: values between steps</span></div>\n"
        "</section>\n");
  }

  // The table of a program's steps, layers that repeat once.
  void AddSteps(const ProgramSteps& program) {
    absl::StrAppend(
        &out_,
        "<div class=\"scroll\"><table>\n<tr><th class=\"n\">Step</th><th>Does"
        "</th><th>Makes</th><th>Reads</th><th>Type</th><th "
        "class=\"n\">Slot</th></tr>\n");
    int place = 0;
    for (const StepBlock& block : CollapseLayers(program)) {
      if (block.first_layer >= 0) {
        absl::StrAppend(
            &out_, "<tr class=\"block\"><td colspan=\"6\">",
            block.times == 1
                ? absl::StrCat("Layer ", block.first_layer)
                : absl::StrCat("Layers ", block.first_layer, " to ",
                               block.first_layer + block.times - 1, ": ",
                               block.times, " times these ",
                               Plural(block.end - block.begin, "step"),
                               "; layer ", block.first_layer, " is shown"),
            "</td></tr>\n");
      }
      for (int i = block.begin; i < block.end; ++i) {
        const StepView& s = program.steps[i];
        std::vector<std::string> reads;
        for (const std::string& r : s.reads) reads.push_back(Code(r));
        absl::StrAppend(
            &out_, "<tr", s.collective ? " class=\"comm\"" : "",
            "><td class=\"n\">", place + i - block.begin,
            "</td><td "
            "class=\"op\">",
            E(s.op),
            s.detail.empty() ? ""
                             : absl::StrCat("<span class=\"soft mono\">",
                                            E(s.detail), "</span>"),
            "</td><td>", Code(absl::StrCat("%", s.name)), "</td><td>",
            absl::StrJoin(reads, "<br>"), "</td><td class=\"t\">", Code(s.type),
            "</td><td class=\"n\">", s.slot < 0 ? "" : absl::StrCat(s.slot),
            "</td></tr>\n");
      }
      place += (block.end - block.begin) * block.times;
    }
    absl::StrAppend(&out_, "</table></div>\n");
  }

  // Ranks whose program `p` is rank r's, step for step; attributes such as the
  // first row of a part may differ.
  bool SameSteps(int p, int r, int other) const {
    if (p >= static_cast<int>(programs_[other].size())) return false;
    const std::vector<StepView>& a = programs_[r][p].steps;
    const std::vector<StepView>& b = programs_[other][p].steps;
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i].op != b[i].op || a[i].type != b[i].type ||
          a[i].name != b[i].name || a[i].reads != b[i].reads) {
        return false;
      }
    }
    return true;
  }

  void AddPrograms() {
    absl::StrAppend(
        &out_, "<section id=\"steps\">\n<h2>Steps, and memory over time</h2>\n",
        "<p class=\"soft\">The arena while each step runs, at the ceilings. "
        "The dashed line is what the plan reserves.</p>\n",
        "<div class=\"key\"><span><i class=\"a\"></i>bytes in use</span><span>",
        "<i style=\"background:var(--comm)\"></i>a collective</span></div>\n");
    for (size_t p = 0; p < programs_[0].size(); ++p) {
      std::vector<int> done;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const int rank = static_cast<int>(r);
        if (p >= programs_[r].size() ||
            std::any_of(done.begin(), done.end(), [&](int other) {
              return SameSteps(static_cast<int>(p), other, rank);
            })) {
          continue;
        }
        done.push_back(rank);
        std::vector<int> alike;
        for (size_t other = r; other < ranks_.size(); ++other) {
          if (SameSteps(static_cast<int>(p), rank, static_cast<int>(other))) {
            alike.push_back(static_cast<int>(other));
          }
        }
        AddProgram(programs_[r][p], alike, p == 0 && r == 0);
      }
    }
    absl::StrAppend(&out_, "</section>\n");
  }

  void AddProgram(const ProgramSteps& program, const std::vector<int>& ranks,
                  bool open) {
    absl::StrAppend(
        &out_, "<details", open ? " open" : "", "><summary>",
        E(absl::StrCat(program.target, ", program ", program.name)),
        " <span class=\"soft\">", Plural(program.steps.size(), "step"),
        ", arena ", BytesText(static_cast<double>(program.arena_bytes)),
        ranks_.size() == 1
            ? ""
            : absl::StrCat(", rank", ranks.size() == 1 ? " " : "s ",
                           absl::StrJoin(ranks, ", "),
                           ranks.size() == 1
                               ? ""
                               : absl::StrCat(" (attributes as of rank ",
                                              ranks[0], ")")),
        "</span></summary>\n", MemoryChart(program));
    AddSteps(program);
    absl::StrAppend(&out_, "</details>\n");
  }

  void AddWeights() {
    // Bytes of each role and encoding, by rank; kinds in order of first use.
    struct Kind {
      std::string role, encoding;
      int64_t count = 0;
      std::vector<double> bytes;
    };
    std::vector<Kind> kinds;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (const fb::Weight* w : *ranks_[r].fb().weights()) {
        const std::string role(GetRole(static_cast<Role>(w->role())).spelling);
        const std::string encoding(
            EncodingName(static_cast<Encoding>(w->encoding())));
        auto kind =
            std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) {
              return k.role == role && k.encoding == encoding;
            });
        if (kind == kinds.end()) {
          kinds.push_back({role, encoding, 0, {}});
          kind = kinds.end() - 1;
        }
        kind->bytes.resize(ranks_.size());
        kind->bytes[r] += static_cast<double>(w->bytes() + w->scales_bytes());
        if (r == 0) ++kind->count;
      }
    }
    double most = 1;
    for (const Kind& k : kinds) {
      most = std::max(most, *std::max_element(k.bytes.begin(), k.bytes.end()));
    }
    absl::StrAppend(&out_,
                    "<section id=\"weights\">\n<h2>Weights of each rank</h2>\n"
                    "<div class=\"scroll\"><table>\n<tr><th>Role</th><th>"
                    "Encoding</th><th class=\"n\">Number</th>");
    for (size_t r = 0; r < ranks_.size(); ++r) {
      absl::StrAppend(&out_, "<th class=\"n\">Rank ", r, "</th>");
    }
    absl::StrAppend(&out_, "<th></th></tr>\n");
    for (const Kind& k : kinds) {
      absl::StrAppend(&out_, "<tr><td>", Code(k.role), "</td><td>",
                      E(k.encoding), "</td><td class=\"n\">", k.count, "</td>");
      for (const double bytes : k.bytes) {
        absl::StrAppend(&out_, "<td class=\"n\">", BytesText(bytes), "</td>");
      }
      absl::StrAppendFormat(&out_,
                            "<td><div class=\"bar\"><i class=\"w\" "
                            "style=\"width:%.2f%%\"></i></div></td></tr>\n",
                            100 * k.bytes[0] / most);
    }
    absl::StrAppend(&out_, "</table></div>\n");
    for (size_t r = 0; r < ranks_.size(); ++r) AddWeightList(r);
    absl::StrAppend(&out_, "</section>\n");
  }

  void AddWeightList(size_t rank) {
    absl::StrAppend(
        &out_, "<details><summary>All weights of rank ", rank,
        " <span class=\"soft\">", ranks_[rank].fb().weights()->size(),
        "</span></summary>\n<div class=\"scroll\"><table>\n<tr><th>Name</th>"
        "<th>Shape</th><th>Encoding</th><th class=\"n\">Bytes</th><th "
        "class=\"n\">Offset</th><th>From</th></tr>\n");
    for (const fb::Weight* w : *ranks_[rank].fb().weights()) {
      absl::StrAppend(
          &out_, "<tr><td>", Code(absl::StrCat("@", w->name()->str())),
          "</td><td class=\"n\">", absl::StrJoin(*w->shape(), " x "),
          "</td><td>", E(EncodingName(static_cast<Encoding>(w->encoding()))),
          "</td><td class=\"n\">", w->bytes() + w->scales_bytes(),
          "</td><td class=\"n\">", w->offset(), "</td><td>",
          Code(w->source() != nullptr ? w->source()->str() : ""),
          w->origin() == fb::WeightOrigin::Synthetic ? " made up" : "",
          "</td></tr>\n");
    }
    absl::StrAppend(&out_, "</table></div></details>\n");
  }

  void AddCollectives() {
    absl::StrAppend(
        &out_,
        "<section id=\"collectives\">\n<h2>Collectives of each rank</h2>\n");
    bool any = false;
    for (size_t p = 0; p < programs_[0].size(); ++p) any |= AddCollectives(p);
    if (!any) {
      absl::StrAppend(&out_, "<p>None: ",
                      ranks_.size() == 1 ? "one rank has all."
                                         : "no step needs another rank.",
                      "</p>\n");
    }
    absl::StrAppend(&out_, "</section>\n");
  }

  // Whether there are any.
  bool AddCollectives(size_t p) {
    const ProgramSteps& program = programs_[0][p];
    std::vector<std::vector<std::string>> lines;
    for (const auto& programs : programs_) {
      lines.emplace_back();
      if (p >= programs.size()) continue;
      for (const StepView& s : programs[p].steps) {
        if (s.collective) lines.back().push_back(CollectiveLine(s));
      }
    }
    if (lines[0].empty()) return false;
    const bool agree =
        std::all_of(lines.begin(), lines.end(),
                    [&](const auto& l) { return l == lines[0]; });
    double bytes = 0;
    for (const StepView& s : program.steps) {
      if (s.collective) bytes += static_cast<double>(s.collective_bytes);
    }
    absl::StrAppend(
        &out_, "<details", p == 0 ? " open" : "", "><summary>",
        E(absl::StrCat(program.target, ", program ", program.name)),
        " <span class=\"soft\">", Plural(lines[0].size(), "collective"),
        " a step, ", BytesText(bytes), " at the ceilings; ", "</span>",
        agree ? "<span class=\"good\">all ranks agree</span>"
              : "<span class=\"bad\">the ranks differ</span>",
        "</summary>\n<div class=\"scroll\"><table>\n<tr><th>Where</th><th>"
        "Collective</th><th>Value</th><th class=\"n\">Bytes</th>");
    for (size_t r = 0; r < ranks_.size(); ++r) {
      absl::StrAppend(&out_, "<th class=\"n\">Rank ", r, "</th>");
    }
    absl::StrAppend(&out_, "</tr>\n");
    int number = 0;  // of rank 0's collectives
    for (const StepBlock& block : CollapseLayers(program)) {
      int in_block = 0;
      for (int i = block.begin; i < block.end; ++i) {
        if (!program.steps[i].collective) continue;
        ++in_block;
      }
      int nth = 0;
      for (int i = block.begin; i < block.end; ++i) {
        if (!program.steps[i].collective) continue;
        AddCollective(program.steps[i], block, number + nth++, in_block, lines);
      }
      number += in_block * block.times;
    }
    absl::StrAppend(&out_, "</table></div></details>\n");
    return true;
  }

  // A row for rank 0's collective of this number, which comes again after each
  // `stride` others, and whether it is every rank's; `lines` are those of each
  // rank.
  void AddCollective(const StepView& s, const StepBlock& block, int number,
                     int stride,
                     const std::vector<std::vector<std::string>>& lines) {
    const std::string where =
        block.first_layer < 0 ? "outside the layers"
        : block.times == 1    ? absl::StrCat("layer ", block.first_layer)
                           : absl::StrCat("layers ", block.first_layer, " to ",
                                          block.first_layer + block.times - 1,
                                          ", ", block.times, " times");
    absl::StrAppend(
        &out_, "<tr class=\"comm\"><td>", E(where), "</td><td class=\"op\">",
        E(s.op), "<span class=\"soft mono\">", E(s.detail), "</span></td><td>",
        Code(absl::StrCat("%", s.name)), " ", Code(s.type),
        "</td><td class=\"n\">",
        BytesText(static_cast<double>(s.collective_bytes)), "</td>");
    for (const std::vector<std::string>& rank : lines) {
      bool same = true;
      for (int i = 0; i < block.times; ++i) {
        const size_t at = number + i * stride;
        same &= at < rank.size() && at < lines[0].size() &&
                rank[at] == lines[0][at];
      }
      absl::StrAppend(&out_, "<td class=\"n ",
                      same ? "good\">yes" : "bad\">differs", "</td>");
    }
    absl::StrAppend(&out_, "</tr>\n");
  }

  void AddText() {
    const auto row = [&](absl::string_view what, absl::string_view value) {
      absl::StrAppend(&out_, "<tr><td>", E(what), "</td><td>", E(value),
                      "</td></tr>\n");
    };
    absl::StrAppend(
        &out_,
        "<section id=\"text\">\n<h2>Text</h2>\n<table class=\"facts\">\n");
    row("Tokenizer",
        first().tokenizer() == nullptr || first().tokenizer()->size() == 0
            ? "none"
            : BytesText(first().tokenizer()->size()));
    row("Chat template", first().chat_template() == nullptr ||
                                 first().chat_template()->size() == 0
                             ? "none"
                             : BytesText(first().chat_template()->size()));
    if (const fb::GenerationDefaults* g = first().generation()) {
      row("End-of-sequence ids",
          g->eos_ids() == nullptr || g->eos_ids()->size() == 0
              ? "none"
              : absl::StrJoin(*g->eos_ids(), ", "));
      row("Generation defaults",
          g->do_sample()
              ? absl::StrFormat("sampling: temperature %g, top-k %d, top-p %g",
                                g->temperature(), g->top_k(), g->top_p())
              : "greedy");
    }
    row("Golden sequences", absl::StrCat(first().self_tests() == nullptr
                                             ? 0
                                             : first().self_tests()->size()));
    absl::StrAppend(&out_, "</table>\n</section>\n");
  }

  void AddProvenance() {
    absl::StrAppend(&out_,
                    "<section id=\"origin\">\n<h2>Where it comes "
                    "from</h2>\n<table class=\"facts\">\n");
    const auto row = [&](absl::string_view what, const std::string& html) {
      absl::StrAppend(&out_, "<tr><td>", E(what), "</td><td>", html,
                      "</td></tr>\n");
    };
    row("Compiler",
        E(absl::StrCat("deepslice ", TextOf(Provenance("compiler")))));
    if (Provenance("nvrtc") != nullptr) {
      row("NVRTC", E(TextOf(Provenance("nvrtc"))));
    }
    const Value* passes = Provenance("passes");
    if (passes != nullptr && passes->is_array()) {
      std::vector<std::string> names;
      for (const Value& n : passes->items()) names.push_back(Code(TextOf(&n)));
      row("Passes that changed the graph", absl::StrJoin(names, ", "));
    }
    const Value* options = Provenance("options");
    if (options != nullptr) {
      for (const auto& [key, value] : options->members()) {
        row(absl::StrCat("--", absl::StrReplaceAll(key, {{"_", "-"}})),
            Code(TextOf(&value)));
      }
    }
    absl::StrAppend(&out_, "</table>\n");
    const Value* sources = Provenance("sources");
    if (sources != nullptr && !sources->items().empty()) {
      absl::StrAppend(
          &out_,
          "<h3>Sources</h3>\n<div class=\"scroll\"><table>\n<tr><th>File</th>"
          "<th class=\"n\">Bytes</th><th>SHA-256</th></tr>\n");
      for (const Value& s : sources->items()) {
        absl::StrAppend(&out_, "<tr><td>", Code(TextOf(s.Find("name"))),
                        "</td><td class=\"n\">", E(TextOf(s.Find("bytes"))),
                        "</td><td>", Code(TextOf(s.Find("sha256"))),
                        "</td></tr>\n");
      }
      absl::StrAppend(&out_, "</table></div>\n");
    }
    absl::StrAppend(&out_, "</section>\n");
  }

  const std::string title_;
  const std::vector<Plan>& ranks_;
  const Value& manifest_;
  std::vector<std::vector<ProgramSteps>> programs_;  // by rank
  std::vector<RankMemory> memory_;
  std::string out_;
};

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        // A page may hold no other control characters.
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string PlanHtml(absl::string_view title, const std::vector<Plan>& ranks,
                     const Value& manifest) {
  return Page(title, ranks, manifest).Write();
}

}  // namespace deepslice
