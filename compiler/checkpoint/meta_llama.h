// Meta's own LLaMA folders: params.json and consolidated.NN.pth, a file for
// each rank of model parallel training.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_META_LLAMA_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_META_LLAMA_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// Whether `folder` holds both, and no weights of Hugging Face with a config.
bool LooksLikeMetaLlama(const std::string& folder);

// The whole tensors under Hugging Face's names, rows of queries and keys in its
// order of rotary pairs, with the config that params.json makes. The tokenizer
// is that of the folder, else the tokenizer.model of the folder above.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMetaLlama(
    const std::string& folder);

// As above, where `path` is a folder's params.json or its only
// consolidated.NN.pth; InvalidArgument when it is one of several.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMetaLlamaFile(
    const std::string& path);

// Whether `path` is such a file.
bool LooksLikeMetaLlamaFile(const std::string& path);

// NotFound for Meta's files of weights in `folder` without params.json, or a
// config.json that would make them another's.
absl::Status RefuseMetaWithoutParams(const std::string& folder);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_META_LLAMA_H_
