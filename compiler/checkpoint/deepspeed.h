// Checkpoints of DeepSpeed's training: the ranks' model_states and the
// partitions of ZeRO, with the names of Hugging Face or of Megatron.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/deepspeed_files.h"

namespace deepslice {

// `folder` holds `latest`, steps, or the files of one. Config and tokenizer are
// looked for in it, in the step's folder and in that one's.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeedFolder(
    const std::string& folder, const OpenOptions& options);

// The step that `path`, named as one of its files, is part of.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeedFile(
    const std::string& path, const OpenOptions& options);

// The files of a step; `folders` are those where its config and tokenizer may
// be, the first that has any counts.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeed(
    const DeepSpeedFiles& files, const std::vector<std::string>& folders,
    const OpenOptions& options, std::vector<std::string> notes);

// The first of `folders` with a config.json, else with a tokenizer, else the
// first.
std::string FindSideFolder(const std::vector<std::string>& folders);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_H_
