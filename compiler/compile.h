// From a source to a plan folder: the whole of dscompile but its command line.
#ifndef DEEPSLICE_COMPILER_COMPILE_H_
#define DEEPSLICE_COMPILER_COMPILE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "compiler/plan_writer.h"

namespace deepslice {

struct CompileOptions {
  std::string source;
  std::string output;
  bool force = false;  // replace an existing plan

  int tp = 1;
  std::string dtype = "auto";
  std::vector<std::string> targets = {"cpu"};
  // Bytes of every GPU, in place of what the named card has; 0: the card's.
  int64_t device_memory = 0;
  // Ceilings of the step program; 0: the smaller of the model's and 4096, 8,
  // 512 (2048 for GPUs alone), 64.
  int64_t max_seq_len = 0;
  // max_seq_len may be more than the model has positions; they count, then.
  bool lower_max_seq_len = false;
  int64_t max_batch = 0;
  int64_t max_step_tokens = 0;
  int64_t kv_block = 0;

  // Weights are made up from this seed; `source` is a config.json or its
  // folder.
  absl::optional<uint64_t> random_weights;
  // Where compiled kernels are kept; "": nowhere.
  std::string kernel_cache;

  bool ignore_index = false;
  int64_t vocab_size = 0;  // as of OpenOptions, as is qkv_layout
  std::string qkv_layout;
  std::string base_dir;  // as of OpenOptions, as is list_in_config
  bool list_in_config = false;
  // Tensor-parallel ranks that saved the checkpoint, where it tells; 0: any.
  int training_mp_size = 0;
  bool assume_tied = false;
  bool trust_lm_head = false;
  std::string policy;     // a policy file; empty: by the config
  std::string injection;  // as of ParseInjection
  std::string tiktoken_pattern;  // empty: by the names of the files

  std::string dump_ir, dump_filter, stop_after;
  std::vector<std::string> start_from;
  bool time_passes = false;
  bool unchecked = false;  // for edited IR: skip the check across ranks

  // Golden sequences for `dsrun selftest`: "auto" makes as many tokens as take
  // little time, "full" as many as there should be, "none" none.
  std::string selftest = "auto";

  int threads = 0;                              // 0: one per core
  std::function<void(const std::string&)> log;  // notes; may be empty
  ReportProgress progress;
};

struct CompileResult {
  bool stopped = false;  // stop_after was reached; nothing was written
  WrittenPlan plan;
  std::string family;
  std::string dtype;
};

// FailedPrecondition or Unimplemented for what the model or target cannot take;
// InvalidArgument, NotFound, DataLoss for bad input.
absl::StatusOr<CompileResult> Compile(const CompileOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_COMPILE_H_
