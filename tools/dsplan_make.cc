#include "tools/dsplan_make.h"

#include <signal.h>

#include <iostream>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/jit/jit.h"
#include "compiler/plan_folder.h"
#include "schema/base/exit_code.h"
#include "schema/base/limits.h"
#include "tools/command_line.h"
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

}  // namespace

void AddMakeVerbs(CLI::App& app, MakeVerbs* verbs) { AddReshard(app, verbs); }

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
  ReshardOptions& o = verbs.reshard_options;
  o.log = log;
  o.progress = report;
  const absl::StatusOr<WrittenPlan> written = ReshardPlan(o);
  progress.Clear();
  if (!written.ok()) {
    if (PlanWritingInterrupted()) {
      std::cerr << "dsplan: interrupted; nothing was written\n";
      return kExitInterrupted;
    }
    PrintError("dsplan", written.status());
    return ExitCodeOf(written.status());
  }
  if (!quiet) {
    std::cerr << absl::StrFormat("%s: %d rank%s, %s in %.2f s\n",
                                 OneLine(o.output), o.tp, o.tp == 1 ? "" : "s",
                                 BytesText(written->bytes),
                                 absl::ToDoubleSeconds(absl::Now() - start));
  }
  return kExitDone;
}

}  // namespace deepslice
