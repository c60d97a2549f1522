// dscompile: a checkpoint in, one plan per rank out. No GPU, no Python.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/compile.h"
#include "compiler/dtype_option.h"
#include "compiler/jit/jit.h"
#include "compiler/pipeline.h"
#include "compiler/plan_folder.h"
#include "compiler/target.h"
#include "schema/base/exit_code.h"
#include "schema/base/limits.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"
#include "tools/dscompile_limits.h"

namespace deepslice {
namespace {

void OnSignal(int) { InterruptPlanWriting(); }

// Bytes, rate and time left: redrawn on a terminal, a line every 10 s
// elsewhere.
class Progress {
 public:
  explicit Progress(bool quiet)
      : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  void operator()(uint64_t done, uint64_t total) {
    if (quiet_) return;
    const absl::Time now = absl::Now();
    // Kernels may have been compiled for minutes before the first byte.
    if (!started_) {
      started_ = true;
      start_ = last_ = now;
    }
    if (now - last_ <
        (terminal_ ? absl::Milliseconds(200) : absl::Seconds(10))) {
      return;
    }
    last_ = now;
    const double seconds = absl::ToDoubleSeconds(now - start_);
    const double rate = done / std::max(seconds, 1e-3);
    const std::string text = absl::StrFormat(
        "wrote %.1f of %.1f MB, %.0f MB/s, %.0f s left", done / 1e6,
        total / 1e6, rate / 1e6, (total - done) / std::max(rate, 1.0));
    if (terminal_) {
      drawn_ = true;
      std::fprintf(stderr, "\r\033[K%s", text.c_str());
    } else {
      std::fprintf(stderr, "%s\n", text.c_str());
    }
  }

 private:
  const bool quiet_, terminal_;
  bool drawn_ = false, started_ = false;
  absl::Time start_, last_;
};

void AddOptions(CLI::App& app, CompileOptions& o, bool* quiet) {
  app.add_option("SRC", o.source,
                 "Hugging Face folder, .safetensors or .gguf file; config.json "
                 "with --random-weights")
      ->required();
  app.add_option("-o,--output", o.output, "folder to make: the plan");
  app.add_flag("--force", o.force, "replace a plan that exists");
  app.add_option("--tp,--tp-size,--tensor-parallel-size,--mp-size,--num-shard",
                 o.tp, "ranks that share every layer")
      ->type_name("N")
      ->check(WholeNumber(1, limits::kWorldSize))
      ->capture_default_str();
  app.add_option("--dtype", o.dtype,
                 "auto (the checkpoint's own), fp32, fp16, bf16, int8")
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--target", o.targets,
                 "what runs the plan, one or several with commas: cpu, a GPU's "
                 "architecture (sm_90a; compute_80 for PTX) or a card (h200, "
                 "a100-80g, l4, \"rtx 4090\"); needs no GPU")
      ->type_name("NAME")
      ->delimiter(',')
      ->capture_default_str();
  o.kernel_cache = DefaultKernelCache();
  app.add_option("--kernel-cache", o.kernel_cache,
                 "folder of compiled kernels, made when absent")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag_callback(
      "--no-kernel-cache", [&o] { o.kernel_cache.clear(); },
      "compile every kernel anew");
  app.add_option("--random-weights", o.random_weights,
                 "make weights up, none are stored: SRC is a config.json or "
                 "its folder")
      ->type_name("SEED")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
  app.add_option("--max-seq-len,--max-model-len,--ctx-size,--max-out-tokens",
                 o.max_seq_len,
                 "tokens of a sequence; default: the smaller of the model's "
                 "and 4096")
      ->type_name("TOKENS")
      ->check(WholeNumber(1, limits::kPositions));
  app.add_option("--max-batch,--max-num-seqs", o.max_batch,
                 "sequences at a time; default 8")
      ->type_name("N")
      ->check(WholeNumber(1, 65536));
  app.add_option("--max-step-tokens,--max-num-batched-tokens",
                 o.max_step_tokens,
                 "tokens of one step, longer prompts run in chunks; default "
                 "512, of GPUs alone 2048")
      ->type_name("TOKENS")
      ->check(WholeNumber(1, 1 << 20));
  app.add_option("--kv-block", o.kv_block,
                 "tokens of a cache block; default 64")
      ->type_name("TOKENS")
      ->check(WholeNumber(1, 65536));
  app.add_flag("--ignore-index", o.ignore_index,
               "read the shards that are there, not the index");
  app.add_flag("--assume-tied", o.assume_tied,
               "a missing head is the embedding");
  app.add_flag("--trust-lm-head", o.trust_lm_head,
               "a head that differs from the embedding counts, although the "
               "config ties them");
  app.add_option("--dump-ir", o.dump_ir,
                 "folder for the graph after each pass that changed it")
      ->type_name("DIR");
  app.add_option("--dump-filter", o.dump_filter,
                 "only dumps whose file name holds this")
      ->type_name("TEXT");
  app.add_option("--stop-after", o.stop_after,
                 "a phase (import, fuse, quantize, slice) or pass; nothing is "
                 "written but dumps")
      ->type_name("PHASE")
      ->check(CLI::IsMember(StopAfterNames()));
  app.add_option("--start-from", o.start_from,
                 "a dump, perhaps edited, that takes the place of the graph "
                 "after its pass; repeatable")
      ->type_name("FILE.ir");
  app.add_flag("--time-passes", o.time_passes, "a line per pass");
  app.add_flag("--unchecked", o.unchecked,
               "write a plan whose ranks disagree (edited dumps)");
  app.add_option("-j,--threads", o.threads, "default: one per core")
      ->type_name("N")
      ->check(WholeNumber(1, 1024));
  app.add_flag("-q,--quiet", *quiet, "errors alone");
}

int Usage(const absl::Status& status) {
  PrintError("dscompile", status);
  return kExitUsage;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments = NormalizedArguments(argc, argv);
  if (!arguments.empty() && arguments[0] == "limits") {
    return RunLimits({arguments.begin() + 1, arguments.end()});
  }
  CLI::App app(
      "Compiles a checkpoint to one plan per rank: dscompile SRC --tp 4 "
      "--dtype int8 -o plan/",
      "dscompile");
  app.set_version_flag("--version",
                       "dscompile " DEEPSLICE_VERSION
                       ", writes plan format 1, targets cpu and GPUs from "
                       "sm_80 on");
  CompileOptions o;
  bool quiet = false;
  AddOptions(app, o, &quiet);
  app.footer("dscompile limits prints the bounds on files (--json).");
  if (const int code = ParseCommandLine(app, arguments); code >= 0) {
    return code;
  }
  // A wrong spelling is a usage error; whether the model has it comes later.
  if (const auto dtype = ChooseStorage(o.dtype, DType::kBF16); !dtype.ok()) {
    return Usage(dtype.status());
  }
  for (const std::string& name : o.targets) {
    if (const auto target = ParseTarget(name);
        absl::IsInvalidArgument(target.status())) {
      return Usage(target.status());
    }
  }
  if (o.output.empty() && o.stop_after.empty()) {
    return Usage(
        absl::InvalidArgumentError("-o PLAN is missing: the folder to make"));
  }
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(s, &action, nullptr);
  }
  if (!quiet) {
    o.log = [](const std::string& line) {
      std::cerr << "note: " << OneLine(line) << "\n";
    };
  }
  const absl::Time start = absl::Now();
  absl::StatusOr<CompileResult> result = [&] {
    Progress progress(quiet);
    o.progress = std::ref(progress);
    return Compile(o);
  }();
  if (!result.ok()) {
    if (PlanWritingInterrupted()) {
      std::cerr << "dscompile: interrupted; nothing was written\n";
      return kExitInterrupted;
    }
    PrintError("dscompile", result.status());
    return ExitCodeOf(result.status());
  }
  if (!quiet && !result->stopped) {
    std::cerr << absl::StrFormat(
        "%s: %s, %s, %d rank%s, %.1f MB in %.2f s\n", OneLine(o.output),
        result->family, result->dtype, o.tp, o.tp == 1 ? "" : "s",
        result->plan.bytes / 1e6, absl::ToDoubleSeconds(absl::Now() - start));
  }
  return kExitDone;
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  return deepslice::RunProgram("dscompile", deepslice::Main, argc, argv);
}
