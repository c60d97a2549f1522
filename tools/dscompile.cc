// dscompile: a checkpoint in, one plan per rank out. No GPU, no Python.
#include <signal.h>

#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/compile.h"
#include "compiler/dtype_option.h"
#include "compiler/injection.h"
#include "compiler/jit/jit.h"
#include "compiler/jit/nvrtc.h"
#include "compiler/pipeline.h"
#include "compiler/plan_folder.h"
#include "compiler/target.h"
#include "schema/base/exit_code.h"
#include "schema/base/limits.h"
#include "schema/plan_format.h"
#include "tools/cli_parse.h"
#include "tools/cli_values.h"
#include "tools/command_line.h"
#include "tools/dscompile_config.h"
#include "tools/dscompile_families.h"
#include "tools/dscompile_limits.h"
#include "tools/peak_memory.h"
#include "tools/progress.h"
#include "tools/version.h"

namespace deepslice {
namespace {

void OnSignal(int) { InterruptPlanWriting(); }

void AddSourceFlags(CLI::App& app, CompileOptions& o, std::string* config) {
  app.add_option(
      "SRC,-m,--model", o.source,
      "Hugging Face folder, .safetensors, .bin, .pt, .pth or .gguf "
      "file, Megatron folder, folder of DeepSpeed's training or a "
      "file in it, DeepSpeed's checkpoint.json, Meta's LLaMA folder; "
      "config.json with --random-weights; may stand in --config");
  app.add_option("-o,--output", o.output,
                 "Folder to make: the plan; no default")
      ->type_name("PLAN");
  app.add_option("--config", *config,
                 "DeepSpeed's inference configuration (init_inference's): its "
                 "keys in the place of flags, which may not say otherwise; "
                 "`dscompile deepspeed-keys` lists them; none by default")
      ->type_name("FILE");
  app.add_option("--base-dir", o.base_dir,
                 "Folder of the files that a checkpoint.json without base_dir "
                 "lists; default its own")
      ->type_name("DIR");
  app.add_option("--training-mp-size", o.training_mp_size,
                 "Tensor-parallel degree that the checkpoint must have been "
                 "saved with; by default any")
      ->type_name("N")
      ->check(WholeNumber(1, limits::kWorldSize));
  app.add_flag("--force", o.force, "Replace a plan that exists");
  app.add_option("--random-weights", o.random_weights,
                 "Make weights up, none are stored: SRC is a config.json or "
                 "its folder; by default SRC holds them")
      ->type_name("SEED")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
  app.add_flag("--ignore-index", o.ignore_index,
               "Read the shards that are there, not the index");
  app.add_option("--vocab-size", o.vocab_size,
                 "Of a Megatron checkpoint, whose vocabulary is padded: the "
                 "rows to keep; default the tokenizer's, else all")
      ->type_name("ROWS")
      ->check(WholeNumber(1, limits::kVocab));
  app.add_option("--qkv-layout", o.qkv_layout,
                 "How query_key_value lies in a Megatron checkpoint, where its "
                 "version does not say it: thirds (version 0, and "
                 "Megatron-DeepSpeed since December 2024), per_row (1), "
                 "per_group (2 and 3); default by the version")
      ->type_name("LAYOUT");
  app.add_flag("--assume-tied", o.assume_tied,
               "A missing head is the embedding");
  app.add_flag("--trust-lm-head", o.trust_lm_head,
               "A head that differs from the embedding counts, although the "
               "config ties them");
  app.add_option("--policy", o.policy,
                 "A model family as data, taken whatever config.json says of "
                 "the architecture: see compiler/MODELS.md; default the "
                 "built-in one that it names, else one made of the tensors' "
                 "names")
      ->type_name("FILE");
  app.add_option("--injection", o.injection,
                 "Row-parallel linears as DeepSpeed's injection_policy names "
                 "them, all others being column-parallel: "
                 "'LlamaDecoderLayer=self_attn.o_proj,mlp.down_proj'; default "
                 "those of the policy")
      ->type_name("BLOCK=NAMES")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const absl::Status status = ParseInjection(text).status();
            return status.ok() ? std::string() : std::string(status.message());
          },
          ""));
  app.add_option("--tiktoken-pattern", o.tiktoken_pattern,
                 "How a tokenizer of ranks cuts its text, where its name does "
                 "not say it: gpt2, cl100k_base, o200k_base, llama3, qwen")
      ->type_name("NAME");
}

void AddPlanFlags(CLI::App& app, CompileOptions& o) {
  app.add_option("--tp", o.tp, "Ranks that share every layer")
      ->type_name("N")
      ->check(WholeNumber(1, limits::kWorldSize))
      ->capture_default_str();
  app.add_option("--dtype", o.dtype,
                 "auto (the checkpoint's own), fp32, fp16, bf16, int8, each "
                 "under every name that torch and its users have for it")
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--target", o.targets,
                 "What runs the plan, one or several with commas: cpu, a GPU's "
                 "architecture (sm_90a; compute_80 for PTX) or a card (h200, "
                 "a100-80g, l4, \"rtx 4090\"); needs no GPU")
      ->type_name("NAME")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--device-memory", o.device_memory,
                 "Memory of each GPU, in bytes or as 80GiB, 80G, 80e9: a plan "
                 "that does not fit is refused; default what the card named by "
                 "--target has, no check for an architecture")
      ->type_name("SIZE")
      ->transform(ByteSize(1 << 20, int64_t{1} << 50));
  app.add_option("-c,--max-seq-len", o.max_seq_len,
                 "Tokens of a sequence; default the smaller of the model's "
                 "and 4096")
      ->type_name("TOKENS")
      ->check(WholeNumber(1, limits::kPositions));
  app.add_option("--max-batch", o.max_batch, "Sequences at a time; default 8")
      ->type_name("N")
      ->check(WholeNumber(1, 65536));
  app.add_option("--max-step-tokens", o.max_step_tokens,
                 "Tokens of one step, longer prompts run in chunks; default "
                 "512, of GPUs alone 2048")
      ->type_name("TOKENS")
      ->check(WholeNumber(1, 1 << 20));
  app.add_option("--kv-block", o.kv_block,
                 "Tokens of a cache block; default 64")
      ->type_name("TOKENS")
      ->check(WholeNumber(1, 65536));
}

void AddWorkFlags(CLI::App& app, CompileOptions& o) {
  app.add_option(
         "--selftest", o.selftest,
         "Golden sequences for `dsrun selftest`: auto makes as many "
         "tokens as take a few seconds, of models above about 700 "
         "million parameters none; full makes all of any model, none makes "
         "none")
      ->type_name("HOW")
      ->transform(OneOf({"auto", "full", "none"}))
      ->capture_default_str();
  o.kernel_cache = DefaultKernelCache();
  app.add_option("--kernel-cache", o.kernel_cache,
                 "Folder of compiled kernels, made when absent; default "
                 "deepslice/kernels in $XDG_CACHE_HOME or ~/.cache")
      ->type_name("DIR");
  app.add_flag_callback(
      "--no-kernel-cache", [&o] { o.kernel_cache.clear(); },
      "Compile every kernel anew");
  app.add_option("-j,--threads", o.threads,
                 "Threads that pack, hash and compile; default one per core")
      ->type_name("N")
      ->check(WholeNumber(1, 1024));
}

void AddDebugFlags(CLI::App& app, CompileOptions& o) {
  const std::string group = "Looking into a compilation";
  app.add_option("--dump-ir", o.dump_ir,
                 "Folder for the graph after each pass that changed it; by "
                 "default none")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--dump-filter", o.dump_filter,
                 "Only dumps whose file name holds this; by default all")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--stop-after", o.stop_after,
                 absl::StrCat("A phase (import, fuse, quantize, slice) or a "
                              "pass; nothing is written but dumps; by default "
                              "all run: ",
                              absl::StrJoin(StopAfterNames(), ", ")))
      ->type_name("PHASE")
      ->transform(OneOf(StopAfterNames()))
      ->group(group);
  app.add_option("--start-from", o.start_from,
                 "A dump, perhaps edited, that takes the place of the graph "
                 "after its pass; repeatable, none by default")
      ->type_name("FILE.ir")
      ->group(group);
  app.add_flag("--time-passes", o.time_passes,
               "A line per pass with its milliseconds")
      ->group(group);
  app.add_flag("--unchecked", o.unchecked,
               "Write a plan whose ranks disagree (edited dumps)")
      ->group(group);
}

// The targets that --target knows, and which of them the NVRTC here compiles.
std::string Version() {
  std::string more = absl::StrFormat(
      "plan formats: writes %d, reads none\ntargets: cpu, %s\n",
      kPlanFormatVersion, absl::StrJoin(ArchitectureNames(), ", "));
  const absl::StatusOr<Nvrtc> nvrtc = OpenNvrtc();
  if (!nvrtc.ok()) {
    return VersionText(
        "dscompile",
        absl::StrCat(more, "NVRTC: not found, so the list above is built in"));
  }
  std::vector<std::string> known;
  for (const int a : nvrtc->archs) known.push_back(absl::StrCat("sm_", a));
  return VersionText(
      "dscompile",
      absl::StrFormat("%sNVRTC: %d.%d (%s) knows %s", more, nvrtc->major,
                      nvrtc->minor, nvrtc->path, absl::StrJoin(known, ", ")));
}

int Usage(const absl::Status& status) {
  PrintError("dscompile", status);
  return kExitUsage;
}

// Reads --config and gives its settings to the app's options, and what it says
// besides to `notes`. -1 when compiling may go on, else the exit code.
int TakeConfig(const std::string& path, CLI::App& app, CompileOptions& o,
               std::vector<std::string>* notes) {
  const std::string typed = TypedValue(app, "dtype");
  const auto dtype = ChooseStorage(typed, DType::kBF16);
  const auto config = ReadDeepSpeedConfigFile(
      path, typed.empty() || !dtype.ok() ? "" : StorageName(*dtype));
  if (!config.ok()) {
    PrintError("dscompile", config.status());
    return ExitCodeOf(config.status());
  }
  if (const absl::Status s = CheckConflicts(*config, app); !s.ok()) {
    return Usage(s);
  }
  *notes = ConfigNotes(*config, app);
  const bool ceiling = TypedValue(app, "max-seq-len").empty();
  if (const absl::Status s = ApplyConfig(*config, app); !s.ok()) {
    PrintError("dscompile", s);
    return ExitCodeOf(s);
  }
  o.lower_max_seq_len = ceiling;
  o.list_in_config = config->holds_checkpoint;
  return -1;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments = NormalizedArguments(argc, argv);
  if (!arguments.empty() && arguments[0] == "limits") {
    return RunLimits({arguments.begin() + 1, arguments.end()});
  }
  if (!arguments.empty() && arguments[0] == "families") {
    return RunFamilies({arguments.begin() + 1, arguments.end()});
  }
  if (!arguments.empty() && arguments[0] == "deepspeed-keys") {
    return RunDeepSpeedKeys({arguments.begin() + 1, arguments.end()});
  }
  CLI::App app(
      "Compiles a checkpoint to one plan per rank: dscompile SRC --tp 4 "
      "--dtype int8 -o plan/",
      "dscompile");
  app.set_version_flag("--version", Version);
  CompileOptions o;
  Verbosity verbosity;
  std::string config_path;
  AddSourceFlags(app, o, &config_path);
  AddPlanFlags(app, o);
  AddWorkFlags(app, o);
  AddVerbosityFlags(app, &verbosity);
  AddDebugFlags(app, o);
  app.footer(
      "`dscompile families` prints the models that have a policy, `dscompile "
      "limits` the\nbounds on files, `dscompile deepspeed-keys` what --config "
      "reads (--json). Every flag is also read from the "
      "environment, --max-batch\nfrom DSCOMPILE_MAX_BATCH; the command line "
      "wins. `-` and `_` in flags are "
      "alike. Exit codes: 0 done, 1 failed,\n2 usage, 3 bad input, 4 does not "
      "fit or unsupported, 130 interrupted.");
  if (const int code = ParseCommandLine(app, arguments); code >= 0) {
    return code;
  }
  const bool quiet = verbosity.quiet;
  if (verbosity.verbose) o.time_passes = true;
  std::vector<std::string> notes;
  if (!config_path.empty()) {
    if (const int code = TakeConfig(config_path, app, o, &notes); code >= 0) {
      return code;
    }
  }
  if (o.source.empty()) {
    return Usage(absl::InvalidArgumentError(
        config_path.empty()
            ? "SRC is required; see dscompile --help"
            : absl::StrCat("SRC is required, here or as checkpoint in ",
                           config_path)));
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
  Progress progress(!quiet && verbosity.progress, Progress::Stderr());
  if (!quiet) {
    o.log = [&progress](const std::string& line) {
      progress.Clear();
      std::cerr << "note: " << OneLine(line) << "\n";
    };
  }
  for (const std::string& note : notes) {
    if (o.log) o.log(note);
  }
  o.progress = [&progress](absl::string_view what, uint64_t done,
                           uint64_t total, absl::string_view unit) {
    progress.Report(what, done, total, unit);
  };
  const absl::Time start = absl::Now();
  const absl::StatusOr<CompileResult> result = Compile(o);
  progress.Clear();
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
        "%s: %s, %s, %d rank%s, %s in %.2f s, peak memory %s\n",
        OneLine(o.output), result->family, result->dtype, o.tp,
        o.tp == 1 ? "" : "s", BytesText(result->plan.bytes),
        absl::ToDoubleSeconds(absl::Now() - start), BytesText(PeakMemory()));
  }
  return kExitDone;
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  return deepslice::RunProgram("dscompile", deepslice::Main, argc, argv);
}
