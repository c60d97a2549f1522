// DeepSpeed's checkpoint.json: the files of a checkpoint as a list.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_CHECKPOINT_JSON_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_CHECKPOINT_JSON_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// Whether a file is such a list by its name, or by the key `checkpoints`.
bool LooksLikeCheckpointJson(const std::string& path);

// InvalidArgument when the file is DeepSpeed's inference configuration, by its
// keys: it is no source.
absl::Status RefuseInferenceConfig(const std::string& path);

// The checkpoint whose files the list names, relative to base_dir, which is
// relative to the list's folder; of the types Megatron, ds_model and BLOOM.
// Trailing commas and keys that are not known are noted.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpointJson(
    const std::string& path, const OpenOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_CHECKPOINT_JSON_H_
