// What a person typed after dsrun, checked as far as it can be without a plan.
#ifndef DEEPSLICE_TOOLS_DSRUN_OPTIONS_H_
#define DEEPSLICE_TOOLS_DSRUN_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/api/device_choice.h"
#include "runtime/executor.h"
#include "runtime/generation_choice.h"
#include "runtime/launch.h"
#include "runtime/spawn.h"
#include "tools/cli_parse.h"

namespace deepslice {

struct DsrunOptions {
  enum class Verb {
    kGenerate,
    kBench,
    kClassify,
    kEmbed,
    kFillMask,
    kSelftest,
    kTemplate,
    kTokenize,
    kTune
  };
  Verb verb = Verb::kGenerate;
  std::string plan;

  // generate
  std::optional<std::string> prompt;  // "-": read from stdin
  bool chat = false;
  std::optional<std::string> system;
  std::optional<std::string> chat_template;  // a name of the plan's, or a file
  std::optional<std::string> template_args;  // a JSON object
  // Each a prompt of its own, run together; empty: not given.
  std::vector<std::vector<int32_t>> prompt_ids;
  std::optional<std::string> prompt_file;  // one prompt; "-": stdin
  std::optional<std::string> prompts;      // a prompt on each line
  GenerationChoice generation;             // as typed
  bool ignore_generation_config = false;
  int64_t min_out_tokens = 0;  // that a sequence must be able to hold
  bool print_ids = false;
  bool json = false;
  std::optional<std::string> feed, fetch;
  std::optional<std::string> perplexity;
  int64_t window = 256;

  // bench
  int64_t bench_prompt = 512;
  int64_t bench_new = 128;
  int bench_runs = 5;
  int64_t bench_batch = 1;
  enum class Format { kText, kJson, kMarkdown };
  Format bench_format = Format::kText;

  // embed, classify, fill-mask, with prompt_file as above; tokenize
  std::vector<std::string> texts_given;
  std::vector<std::string> images;  // embed: files
  bool truncate = false;
  std::string pooling = "auto";  // auto, mean, cls, pooler
  bool normalize = true;
  int64_t top = 0;  // 0: all classes, 5 tokens

  // template
  std::string messages;              // file
  std::optional<std::string> tools;  // file
  bool generation_prompt = true;

  // tokenize
  std::string texts;  // file; empty: texts_given
  std::string tiktoken_pattern;  // empty: by the names of the files

  RunLimits limits;  // 0: not given
  int threads = 0;   // 0: cores / local ranks
  DeviceChoice device;
  Verbosity verbosity;
  bool report_memory = false;
  std::optional<std::string> profile;  // file for a Chrome trace

  RankFlags rank_flags;
  std::optional<SpawnedRank> spawned;
  std::vector<std::string> arguments;  // for ranks that this process starts
};

class DsrunVerb;

// Reads command lines, one after another.
class DsrunCommandLine {
 public:
  DsrunCommandLine();
  ~DsrunCommandLine();
  // nullopt: --help or --version has been printed to stdout; Internal when it
  // could not be. InvalidArgument is a usage error, in one line.
  absl::StatusOr<std::optional<DsrunOptions>> Parse(int argc,
                                                    const char* const* argv);

 private:
  DsrunOptions options_;  // which the verbs' flags fill
  std::map<DsrunOptions::Verb, std::unique_ptr<DsrunVerb>> verbs_;
};

// The one that a process was started with.
absl::StatusOr<std::optional<DsrunOptions>> ParseDsrunOptions(
    int argc, const char* const* argv);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSRUN_OPTIONS_H_
