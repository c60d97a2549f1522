// A Hugging Face folder, and a single file of weights with its config beside
// it.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_HF_FOLDER_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_HF_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// Which weights are read: model.safetensors when it is there and the index does
// not name it (as transformers does; the index is then noted), else the files
// of model.safetensors.index.json; where neither is, pytorch_model.bin and
// pytorch_model.bin.index.json in the same way. With ignore_index: every
// .safetensors file, else every pytorch_model*.bin. What is not read is noted,
// each kind once.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHfFolder(
    const std::string& folder, const OpenOptions& options);

// One file that holds the whole model, .safetensors by its name or else of
// torch.save; a part of a numbered family is refused.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenWeightFile(
    const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_HF_FOLDER_H_
