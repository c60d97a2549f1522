// dsopt: runs named passes over the text of a graph and prints what they made.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"
#include "tools/version.h"

namespace deepslice {
namespace {

struct Options {
  std::string input;
  std::string output = "-";
  std::string passes;
  bool verify_only = false;
};

absl::Status RunPasses(const std::vector<std::unique_ptr<Pass>>& passes,
                       Graph* graph) {
  for (size_t i = 0; i < passes.size(); ++i) {
    const std::string where = absl::StrCat("pass ", passes[i]->name(), " (",
                                           i + 1, " of ", passes.size(), ")");
    DS_RETURN_IF_ERROR(Annotate(passes[i]->Run(*graph), where));
    DS_RETURN_IF_ERROR(Annotate(VerifyGraph(*graph), "after ", where));
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options,
                 const std::vector<std::unique_ptr<Pass>>& passes) {
  const std::string label = options.input == "-" ? "<stdin>" : options.input;
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadInput(options.input, limits::kIrTextBytes));
  DS_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text, label));
  if (const absl::Status status = VerifyGraph(graph); !status.ok()) {
    // Internal where a pass broke the graph; this one came from a person.
    return absl::InvalidArgumentError(
        absl::StrCat(label, ": ", status.message()));
  }
  DS_RETURN_IF_ERROR(RunPasses(passes, &graph));
  if (options.verify_only) return absl::OkStatus();
  return WriteOutput(options.output, PrintGraph(graph));
}

int Report(const absl::Status& status, int exit_code) {
  if (!status.ok()) {
    std::cerr << status.ToString(absl::StatusToStringMode::kWithNoExtraData)
              << "\n";
  }
  return exit_code;
}

int Main(int argc, char** argv) {
  Options options;
  bool list_passes = false;
  CLI::App app(
      "Runs passes over the text of a graph: "
      "dsopt --passes='fuse-qkv,tensor-slice(tp=2,rank=1)' in.ir",
      "dsopt");
  app.add_option("input", options.input, "a graph as text; - is stdin")
      ->type_name("FILE");
  app.add_option("--passes", options.passes,
                 "names with arguments, commas between; none: check and print")
      ->type_name("LIST");
  app.add_option("-o,--output", options.output,
                 "where the result goes; - is stdout, as by default")
      ->type_name("FILE");
  app.add_flag("--verify", options.verify_only,
               "run and check the graph after each pass, and print nothing");
  app.add_flag("--list-passes", list_passes, "print all passes, one a line");
  app.set_version_flag("--version", VersionText("dsopt",
                                                "reads and writes the text of "
                                                "graphs (ir/parser.h)"));
  if (const int code = ParseCommandLine(app, NormalizedArguments(argc, argv));
      code >= 0) {
    return code;
  }
  if (list_passes) {
    std::string text;
    for (const PassInfo& info : AllPasses()) {
      absl::StrAppend(&text, info.name, "  ", info.summary, "\n");
    }
    const absl::Status status = WriteOutput("-", text);
    return Report(status, ExitCodeOf(status));
  }
  if (options.input.empty()) {
    PrintError("dsopt", absl::InvalidArgumentError(
                            "no input; give a file, or - for stdin"));
    return kExitUsage;
  }
  const auto passes = ParsePasses(options.passes);
  if (!passes.ok()) {
    return Report(Annotate(passes.status(), "--passes"), kExitUsage);
  }
  const absl::Status status = Run(options, *passes);
  return Report(status, ExitCodeOf(status));
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  return deepslice::RunProgram("dsopt", deepslice::Main, argc, argv);
}
