// Checkpoints of Megatron-LM, any number of ranks and stages, as the tensors
// and the config of policy megatron_gpt.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron_files.h"
#include "compiler/checkpoint/megatron_shard.h"

namespace deepslice {

// What a list of DeepSpeed says beside its files.
struct MegatronHints {
  absl::optional<int> version;  // counts more than that of the files
  std::vector<std::string> notes;
};

// The checkpoint in `files`; a tokenizer and the like are looked for in
// `folder`, and a config.json where the files hold no arguments.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMegatron(
    const MegatronFiles& files, const std::string& folder,
    const MegatronHints& hints, const OpenOptions& options);

// The same of ranks that are read: shards in the order of files.paths, whose
// tensors lie in parts.sources; `parts` has the side files of `folder` and what
// notes there are.
absl::StatusOr<std::unique_ptr<Checkpoint>> JoinMegatron(
    const MegatronFiles& files, const std::vector<MegatronShard>& shards,
    const std::string& folder, const MegatronHints& hints,
    const OpenOptions& options, CheckpointParts parts);

// As FindMegatronFiles finds them.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMegatronFolder(
    const std::string& folder, const OpenOptions& options);

// The checkpoint that `path`, the file of a rank in its own folder, is part of.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMegatronFile(
    const std::string& path, const OpenOptions& options);

// InvalidArgument when an option is given that is of Megatron alone; `path` is
// something else.
absl::Status RefuseMegatronOptions(const std::string& path,
                                   const OpenOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_H_
