// A checkpoint that is a configuration alone: its tensors are made up.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_SYNTHETIC_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_SYNTHETIC_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// The tensors that a configuration asks for: name, dtype, shape, and of
// `synthetic` all but seed and key.
using TensorLister = absl::FunctionRef<absl::StatusOr<std::vector<TensorInfo>>(
    const json::Value& config)>;

// `path` is a JSON file, or a folder of which config.json, the tokenizer and
// the like are read, but no weights. files() is the configuration. Errors as
// OpenCheckpoint's, and those of `list`.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenSyntheticCheckpoint(
    const std::string& path, uint64_t seed, TensorLister list);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_SYNTHETIC_H_
