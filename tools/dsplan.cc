// dsplan: looks into plans: inspect, explain, verify.
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/model.h"
#include "runtime/manifest.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"
#include "tools/plan_explain.h"
#include "tools/plan_inspect.h"
#include "tools/plan_verify.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadJson(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  absl::StatusOr<json::Value> v = json::Parse(text);
  if (!v.ok()) return Annotate(v.status(), path);
  return v;
}

absl::StatusOr<std::vector<Plan>> LoadRanks(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const int world, PlanWorldSize(folder));
  std::vector<Plan> ranks;
  for (int r = 0; r < world; ++r) {
    DS_ASSIGN_OR_RETURN(Plan plan, Plan::Load(folder, r));
    ranks.push_back(std::move(plan));
  }
  return ranks;
}

struct Options {
  std::string plan;
  std::string tensor;
  std::string against;
  std::string prompt_ids;
  int rank = -1;
  int tokens = 12;
  bool json = false;
  bool assume_tied = false;
  bool trust_lm_head = false;
};

absl::Status Inspect(const Options& o) {
  DS_ASSIGN_OR_RETURN(const std::vector<Plan> ranks, LoadRanks(o.plan));
  DS_ASSIGN_OR_RETURN(const json::Value manifest,
                      ReadJson(JoinPath(o.plan, "manifest.json")));
  if (o.rank >= static_cast<int>(ranks.size())) {
    return absl::NotFoundError(absl::StrFormat(
        "%s: --rank %d: ranks are 0 to %d", o.plan, o.rank, ranks.size() - 1));
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
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                      OpenCheckpoint(o.against));
  DS_ASSIGN_OR_RETURN(
      const ModelDescription model,
      DescribeModel(*checkpoint, {.assume_tied = o.assume_tied,
                                  .trust_lm_head = o.trust_lm_head}));
  if (model.vocab_size != ranks[0].fb().vocab_size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: has %d vocabulary entries, the plan %d; it is another model",
        o.against, model.vocab_size, ranks[0].fb().vocab_size()));
  }
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, Ids(o, model.vocab_size));
  DS_ASSIGN_OR_RETURN(const Comparison comparison,
                      CompareWithSource(ranks, *checkpoint, model, ids));
  return Annotate(Report(comparison), o.plan);
}

int Main(int argc, char** argv) {
  CLI::App app("Looks into a plan", "dsplan");
  app.require_subcommand(1);
  Options o;
  CLI::App* inspect = app.add_subcommand(
      "inspect", "steps, memory map, weights, collectives, provenance");
  inspect->add_option("PLAN", o.plan)->required();
  inspect->add_option("--rank", o.rank, "one rank; default: all")
      ->check(WholeNumber(0, limits::kWorldSize - 1));
  inspect->add_flag("--json", o.json, "for programs");
  CLI::App* explain = app.add_subcommand(
      "explain", "a tensor's way from the checkpoint to the steps");
  explain->add_option("PLAN", o.plan)->required();
  explain->add_option("TENSOR", o.tensor)->required();
  CLI::App* verify = app.add_subcommand(
      "verify",
      "digests and collectives; with --against also every layer's values");
  verify->add_option("PLAN", o.plan)->required();
  verify->add_option("--against", o.against, "the checkpoint it was made from")
      ->type_name("SRC");
  verify->add_option("--prompt-ids", o.prompt_ids,
                     "tokens to run, commas between; default: a spread");
  verify->add_option("--tokens", o.tokens, "how many of the spread")
      ->capture_default_str()
      ->check(WholeNumber(1, 4096));
  verify->add_flag("--assume-tied", o.assume_tied, "as for dscompile");
  verify->add_flag("--trust-lm-head", o.trust_lm_head, "as for dscompile");
  for (CLI::App* a : {&app, inspect, explain, verify}) {
    a->set_version_flag("--version",
                        "dsplan " DEEPSLICE_VERSION ", reads plan format 1");
  }
  if (const int code = ParseCommandLine(app, NormalizedArguments(argc, argv));
      code >= 0) {
    return code;
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
