// dsplan: looks into plans: inspect, explain, verify, diff; and makes something
// of them: reshard, export.
#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/model.h"
#include "runtime/manifest.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"
#include "tools/dsplan_make.h"
#include "tools/plan_diff.h"
#include "tools/plan_dot.h"
#include "tools/plan_explain.h"
#include "tools/plan_files.h"
#include "tools/plan_html.h"
#include "tools/plan_inspect.h"
#include "tools/plan_source.h"
#include "tools/plan_verify.h"
#include "tools/plan_view.h"
#include "tools/progress.h"
#include "tools/version.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadJson(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  absl::StatusOr<json::Value> v = json::Parse(text);
  if (!v.ok()) return Annotate(v.status(), path);
  return v;
}

absl::StatusOr<std::vector<Plan>> LoadRanks(const std::string& folder,
                                            const LoadOptions& options = {}) {
  DS_ASSIGN_OR_RETURN(const int world, PlanWorldSize(folder));
  std::vector<Plan> ranks;
  for (int r = 0; r < world; ++r) {
    DS_ASSIGN_OR_RETURN(Plan plan, Plan::Load(folder, r, options));
    ranks.push_back(std::move(plan));
  }
  return ranks;
}

struct Options {
  std::string plan;
  std::string other;  // of diff
  std::string tensor;
  std::string against;
  std::string prompt_ids;
  int rank = -1;
  int tokens = 12;
  int lines = 20;
  bool json = false;
  bool dot = false;
  std::string html;
  std::string program;
  bool assume_tied = false;
  bool trust_lm_head = false;
  std::string qkv_layout;
  bool progress = true;
};

// The program that --program names, by default the first.
absl::Status PrintDot(const Options& o, const Plan& plan) {
  const std::vector<ProgramSteps> programs = ViewPrograms(plan);
  std::vector<std::string> names;
  for (const ProgramSteps& p : programs) {
    names.push_back(absl::StrCat(p.target, "/", p.name));
    if (o.program.empty() || names.back() == o.program) {
      return Print(ProgramDot(p));
    }
  }
  const std::string nearest = NearestName(o.program, names);
  return absl::NotFoundError(absl::StrCat(
      o.plan, ": --program ", o.program, ": the plan has ",
      absl::StrJoin(names, ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

// The folder's name for a page's title: "plan" of "out/plan/".
std::string TitleOf(absl::string_view folder) {
  while (folder.size() > 1 && absl::ConsumeSuffix(&folder, "/")) {
  }
  return std::string(Basename(folder));
}

absl::Status Inspect(const Options& o) {
  DS_ASSIGN_OR_RETURN(const std::vector<Plan> ranks, LoadRanks(o.plan));
  DS_ASSIGN_OR_RETURN(const json::Value manifest,
                      ReadJson(JoinPath(o.plan, "manifest.json")));
  if (o.rank >= static_cast<int>(ranks.size())) {
    return absl::NotFoundError(absl::StrFormat(
        "%s: --rank %d: ranks are 0 to %d", o.plan, o.rank, ranks.size() - 1));
  }
  if (o.dot) return PrintDot(o, ranks[std::max(o.rank, 0)]);
  if (!o.html.empty()) {
    return WriteOutput(o.html, PlanHtml(TitleOf(o.plan), ranks, manifest));
  }
  json::Value all = json::Value::Array();
  for (const Plan& plan : ranks) {
    if (o.rank >= 0 && plan.rank() != o.rank) continue;
    json::Value v = InspectRank(plan, manifest);
    if (o.json) {
      all.Add(std::move(v));
    } else {
      DS_RETURN_IF_ERROR(Print(InspectText(v) + "\n"));
    }
  }
  return o.json ? Print(json::Write(all, 1) + "\n") : absl::OkStatus();
}

absl::Status Explain(const Options& o) {
  DS_ASSIGN_OR_RETURN(const std::vector<Plan> ranks, LoadRanks(o.plan));
  DS_ASSIGN_OR_RETURN(const json::Value report,
                      ReadJson(JoinPath(o.plan, "report.json")));
  absl::StatusOr<std::string> text = ExplainTensor(ranks, report, o.tensor);
  if (!text.ok()) return Annotate(text.status(), o.plan);
  return Print(*text);
}

absl::StatusOr<std::vector<int32_t>> Ids(const Options& o, int64_t vocab) {
  if (o.prompt_ids.empty()) return ProbeIds(vocab, o.tokens);
  std::vector<int32_t> ids;
  for (absl::string_view part : absl::StrSplit(o.prompt_ids, ',')) {
    int32_t id;
    if (!absl::SimpleAtoi(part, &id) || id < 0 || id >= vocab) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "--prompt-ids: \"%s\"; allowed are ids in [0, %d)", part, vocab));
    }
    ids.push_back(id);
  }
  return ids;
}

// Prints what was compared; Internal when something is outside.
absl::Status Report(const Comparison& c) {
  std::string text =
      absl::StrFormat("%-28s %12s %12s\n", "value", "rel. L2", "max error");
  const ComparedValue* outside = c.FirstOutside();
  for (const ComparedValue& v : c.values) {
    // A layer's last value speaks for it; the first bad one is always shown.
    const bool last =
        v.name == "logits" ||
        (v.name.size() > 4 && v.name.substr(v.name.size() - 4) == ".out");
    if (!last && &v != outside) continue;
    absl::StrAppendFormat(&text, "%-28s %12.3e %12.3e%s\n", "%" + v.name,
                          v.relative_l2, v.max_error,
                          v.within ? "" : "  OUTSIDE");
  }
  if (outside == nullptr) {
    absl::StrAppendFormat(&text, "%d values agree within %g\n", c.values.size(),
                          c.tolerance);
  }
  DS_RETURN_IF_ERROR(Print(text));
  if (outside == nullptr) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat(
      "%s: %%%s is the first value out of tolerance: relative L2 error %.3e, "
      "allowed %g",
      outside->layer >= 0 ? absl::StrFormat("layer %d", outside->layer)
                          : "outside the layers",
      outside->name, outside->relative_l2, c.tolerance));
}

absl::Status Verify(const Options& o) {
  DS_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(o.plan));
  DS_RETURN_IF_ERROR(VerifyFiles(o.plan, manifest));
  DS_ASSIGN_OR_RETURN(const std::vector<Plan> ranks, LoadRanks(o.plan));
  DS_RETURN_IF_ERROR(
      Print("files: sizes and digests agree with the manifest\n"));
  DS_RETURN_IF_ERROR(Annotate(VerifyCollectives(ranks), o.plan));
  DS_RETURN_IF_ERROR(
      Print(absl::StrFormat("collectives: %d ranks agree\n", ranks.size())));
  if (o.against.empty()) return absl::OkStatus();
  OpenOptions open;
  open.qkv_layout = o.qkv_layout;
  DS_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                      OpenCheckpoint(o.against, open));
  // A padded vocabulary may have been cut.
  const int64_t vocab = ranks[0].fb().vocab_size();
  if (vocab > 0 && vocab < checkpoint->padded_vocab()) {
    open.vocab_size = vocab;
    DS_ASSIGN_OR_RETURN(checkpoint, OpenCheckpoint(o.against, open));
  }
  // As it was compiled, where the policy is not built in.
  const json::Value source = PlanSource(ranks[0]);
  const json::Value* policy = source.Find("policy");
  const std::string policy_text =
      policy == nullptr ? "" : json::Write(*policy);
  DS_ASSIGN_OR_RETURN(
      const ModelDescription model,
      DescribeModel(*checkpoint, {.policy_text = policy_text,
                                  .policy_name = "the plan's policy",
                                  .assume_tied = o.assume_tied,
                                  .trust_lm_head = o.trust_lm_head}));
  if (model.vocab_size != ranks[0].fb().vocab_size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: has %d vocabulary entries, the plan %d; it is another model",
        o.against, model.vocab_size, ranks[0].fb().vocab_size()));
  }
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, Ids(o, model.vocab_size));
  Progress progress(o.progress, Progress::Stderr());
  DS_ASSIGN_OR_RETURN(
      const Comparison comparison,
      CompareWithSource(ranks, *checkpoint, model, ids,
                        [&](uint64_t done, uint64_t all) {
                          progress.Report("interpreted", done, all, "values");
                        }));
  progress.Clear();
  return Annotate(Report(comparison), o.plan);
}

// 0 when the plans are the same, 1 when they differ.
absl::StatusOr<int> Diff(const Options& o) {
  ComparedPlan plans[2];
  for (int i = 0; i < 2; ++i) {
    ComparedPlan& p = plans[i];
    p.folder = i == 0 ? o.plan : o.other;
    // The values themselves are compared.
    DS_ASSIGN_OR_RETURN(p.ranks, LoadRanks(p.folder, {.check_weights = false}));
    DS_ASSIGN_OR_RETURN(p.manifest,
                        ReadJson(JoinPath(p.folder, "manifest.json")));
  }
  const json::Value diff = DiffPlans(plans[0], plans[1]);
  DS_RETURN_IF_ERROR(
      Print(o.json ? json::Write(diff, 1) + "\n" : DiffText(diff, o.lines)));
  return diff.Find("same")->as_bool() ? kExitDone : kExitFailed;
}

void AddVerifyFlags(CLI::App& verify, Options& o) {
  verify.add_option("PLAN", o.plan, "Plan folder")->required();
  verify
      .add_option("--against", o.against,
                  "The checkpoint it was made from; by default files and "
                  "collectives alone are checked")
      ->type_name("SRC");
  verify
      .add_option("--prompt-ids", o.prompt_ids,
                  "Tokens to run, commas between; default --tokens of a "
                  "spread over the vocabulary")
      ->type_name("IDS");
  verify.add_option("--tokens", o.tokens, "How many tokens of the spread")
      ->capture_default_str()
      ->check(WholeNumber(1, 4096));
  verify.add_flag("--assume-tied", o.assume_tied, "As for dscompile");
  verify.add_flag("--trust-lm-head", o.trust_lm_head, "As for dscompile");
  verify.add_option("--qkv-layout", o.qkv_layout, "As for dscompile")
      ->type_name("LAYOUT");
  verify.add_flag_callback(
      "--no-progress", [&o] { o.progress = false; },
      "No line of values and time left while --against runs (else one on a "
      "terminal, and one every 10 s elsewhere)");
}

void AddInspectFlags(CLI::App& inspect, Options& o) {
  inspect.add_option("PLAN", o.plan, "Plan folder")->required();
  inspect.add_option("--rank", o.rank, "One rank; default all, of --dot 0")
      ->type_name("RANK")
      ->check(WholeNumber(0, limits::kWorldSize - 1));
  auto* json = inspect.add_flag(
      "--json", o.json, "A list with an object for each rank, for programs");
  auto* dot = inspect
                  .add_flag("--dot", o.dot,
                            "One program as a graph for graphviz: dsplan "
                            "inspect PLAN --dot | dot -Tsvg -o plan.svg")
                  ->excludes(json);
  inspect
      .add_option("--html", o.html,
                  "Write one page of its own (- is stdout): steps, memory over "
                  "time, weights and collectives of every rank; by default "
                  "text goes to stdout")
      ->type_name("FILE")
      ->excludes(json)
      ->excludes(dot);
  inspect
      .add_option("--program", o.program,
                  "Program of --dot, as TARGET/NAME; default the first")
      ->type_name("NAME")
      ->needs(dot);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Looks into plans that dscompile made, and makes something of them.",
      "dsplan");
  app.require_subcommand(1);
  Options o;
  CLI::App* inspect = app.add_subcommand(
      "inspect",
      "Steps, memory map, weights, collectives and origin of a plan, as text, "
      "JSON, graph or page.");
  AddInspectFlags(*inspect, o);
  CLI::App* explain = app.add_subcommand(
      "explain", "A tensor's way from the checkpoint to the steps.");
  explain->add_option("PLAN", o.plan, "Plan folder")->required();
  explain
      ->add_option("TENSOR", o.tensor,
                   "Its name in the checkpoint, or a weight's in the plan")
      ->required();
  CLI::App* verify = app.add_subcommand(
      "verify",
      "Digests and collectives; with --against also every layer's values.");
  AddVerifyFlags(*verify, o);
  CLI::App* diff = app.add_subcommand(
      "diff",
      "What sets two plans apart: passes, options, steps, kernels, weights and "
      "by how much, memory, text, collectives. Exit code 0: the same, 1: they "
      "differ.");
  diff->add_option("A", o.plan, "Plan folder")->required();
  diff->add_option("B", o.other, "Plan folder")->required();
  auto* diff_json =
      diff->add_flag("--json", o.json, "All differences, for programs");
  diff->add_option("--lines", o.lines,
                   "Differences of each kind to print; 0: all")
      ->capture_default_str()
      ->check(WholeNumber(0, 1 << 30))
      ->excludes(diff_json);
  MakeVerbs make;
  AddMakeVerbs(app, &make);
  const std::string version =
      VersionText("dsplan", absl::StrCat("plan formats: reads 1 to ",
                                         kPlanFormatVersion, ", writes ",
                                         kPlanFormatVersion));
  for (CLI::App* a :
       {&app, inspect, explain, verify, diff, make.reshard, make.exporter}) {
    a->set_version_flag("--version", version);
    a->footer(
        "Flags are also read from the environment, --tokens from "
        "DSPLAN_TOKENS; the\ncommand line wins. `-` and `_` in flags are "
        "alike. Exit codes: 0 done, 1 failed,\n2 usage, 3 bad input, 4 "
        "unsupported, 130 interrupted.");
  }
  if (const int code = ParseCommandLine(app, NormalizedArguments(argc, argv));
      code >= 0) {
    return code;
  }
  if (make.reshard->parsed() || make.exporter->parsed()) {
    return RunMakeVerb(make);
  }
  if (diff->parsed()) {
    const absl::StatusOr<int> code = Diff(o);
    if (code.ok()) return *code;
    PrintError("dsplan", code.status());
    return ExitCodeOf(code.status());
  }
  const absl::Status status = inspect->parsed()   ? Inspect(o)
                              : explain->parsed() ? Explain(o)
                                                  : Verify(o);
  if (!status.ok()) PrintError("dsplan", status);
  return ExitCodeOf(status);
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  return deepslice::RunProgram("dsplan", deepslice::Main, argc, argv);
}
