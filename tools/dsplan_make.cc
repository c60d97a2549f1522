#include "tools/dsplan_make.h"

#include <signal.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/jit/jit.h"
#include "compiler/plan_folder.h"
#include "schema/base/exit_code.h"
#include "schema/base/limits.h"
#include "tools/command_line.h"
#include "tools/peak_memory.h"
#include "tools/progress.h"

namespace deepslice {
namespace {

void OnSignal(int) { InterruptPlanWriting(); }

void AddReshard(CLI::App& app, MakeVerbs* verbs) {
  ReshardOptions& o = verbs->reshard_options;
  CLI::App* reshard = app.add_subcommand(
      "reshard",
      "Cuts a plan anew for another number of ranks, without its checkpoint: "
      "byte for byte what dscompile makes of that at --tp N. GPU kernels are "
      "compiled again, with the NVRTC version of the plan.");
  reshard->add_option("PLAN", o.plan, "Plan folder")->required();
  reshard->add_option("--tp", o.tp, "Ranks that share every layer")
      ->type_name("N")
      ->check(WholeNumber(1, limits::kWorldSize))
      ->required();
  reshard->add_option("-o,--output", o.output, "Folder to make: the new plan")
      ->type_name("PLAN2")
      ->required();
  reshard->add_flag("--force", o.force, "Replace a plan that exists");
  o.kernel_cache = DefaultKernelCache();
  reshard
      ->add_option("--kernel-cache", o.kernel_cache,
                   "Folder of compiled kernels, made when absent; default "
                   "deepslice/kernels in $XDG_CACHE_HOME or ~/.cache")
      ->type_name("DIR");
  reshard->add_flag_callback(
      "--no-kernel-cache", [&o] { o.kernel_cache.clear(); },
      "Compile every kernel anew");
  reshard
      ->add_option("-j,--threads", o.threads,
                   "Threads that copy, hash and compile; default one per core")
      ->type_name("N")
      ->check(WholeNumber(1, 1024));
  AddVerbosityFlags(*reshard, &verbs->verbosity);
  verbs->reshard = reshard;
}

void AddExport(CLI::App& app, MakeVerbs* verbs) {
  ExportOptions& o = verbs->export_options;
  CLI::App* exporter = app.add_subcommand(
      "export",
      "Writes a plan's weights back as a Hugging Face folder: safetensors "
      "under the published names (of Megatron-LM's models those of the class "
      "of transformers that computes the same, where there is one), "
      "config.json and tokenizer. Bits are the source's where the plan keeps "
      "its type; int8 is written as float32.");
  exporter->add_option("PLAN", o.plan, "Plan folder")->required();
  exporter->add_option("--to", o.to, "What to write: hf")
      ->type_name("KIND")
      ->transform(OneOf({"hf"}))
      ->capture_default_str();
  exporter->add_option("-o,--output", o.output, "Folder to make; no default")
      ->type_name("DIR")
      ->required();
  exporter
      ->add_option("--max-shard-size", o.max_shard_bytes,
                   "Bytes of a file of weights, or 5GB, 2GiB: more make "
                   "several files and an index; default 5GB")
      ->type_name("SIZE")
      ->transform(ByteSize(1, int64_t{1} << 50));
  exporter
      ->add_option("-j,--threads", o.threads,
                   "Threads that check and write; default one per core")
      ->type_name("N")
      ->check(WholeNumber(1, 1024));
  AddVerbosityFlags(*exporter, &verbs->verbosity);
  verbs->exporter = exporter;
}

// "out: 2 ranks, 36.9 MB in 0.12 s".
void Say(const std::string& output, const std::string& what, uint64_t bytes,
         absl::Duration took) {
  std::cerr << absl::StrFormat("%s: %s, %s in %.2f s\n", OneLine(output), what,
                               BytesText(bytes), absl::ToDoubleSeconds(took));
}

std::string Counted(int64_t n, absl::string_view what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
}

}  // namespace

void AddMakeVerbs(CLI::App& app, MakeVerbs* verbs) {
  AddReshard(app, verbs);
  AddExport(app, verbs);
}

int RunMakeVerb(MakeVerbs& verbs) {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(s, &action, nullptr);
  }
  const bool quiet = verbs.verbosity.quiet;
  Progress progress(!quiet && verbs.verbosity.progress, Progress::Stderr());
  const auto log = [&](const std::string& line) {
    if (quiet) return;
    progress.Clear();
    std::cerr << "note: " << OneLine(line) << "\n";
  };
  const auto report = [&](absl::string_view what, uint64_t done, uint64_t total,
                          absl::string_view unit) {
    progress.Report(what, done, total, unit);
  };
  const absl::Time start = absl::Now();
  absl::Status status;
  std::string what, output;
  uint64_t bytes = 0;
  if (verbs.reshard->parsed()) {
    ReshardOptions& o = verbs.reshard_options;
    o.log = log;
    o.progress = report;
    const absl::StatusOr<WrittenPlan> written = ReshardPlan(o);
    status = written.status();
    output = o.output;
    what = Counted(o.tp, "rank");
    if (written.ok()) bytes = written->bytes;
  } else {
    ExportOptions& o = verbs.export_options;
    o.log = log;
    o.progress = report;
    const absl::StatusOr<ExportResult> written = ExportPlan(o);
    status = written.status();
    output = o.output;
    if (written.ok()) {
      what = Counted(written->tensors, "tensor");
      bytes = written->bytes;
    }
  }
  progress.Clear();
  if (!status.ok()) {
    if (PlanWritingInterrupted()) {
      std::cerr << "dsplan: interrupted; nothing was written\n";
      return kExitInterrupted;
    }
    PrintError("dsplan", status);
    return ExitCodeOf(status);
  }
  if (!quiet) Say(output, what, bytes, absl::Now() - start);
  if (verbs.verbosity.verbose) {
    std::cerr << "peak memory, files' pages among it: "
              << BytesText(PeakMemory()) << "\n";
  }
  return kExitDone;
}

}  // namespace deepslice
