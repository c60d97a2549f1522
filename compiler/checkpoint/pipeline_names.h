// What a layer of a pipeline is, and its tensors' names in the whole model.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PIPELINE_NAMES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PIPELINE_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

enum class PipelineRole { kEmbedding, kBlock, kFinalNorm, kHead };

// By names and numbers of dims; `after_blocks`: such a layer came before it.
// Nothing when it is none of these.
absl::optional<PipelineRole> RoleOfLayer(const std::vector<TensorInfo>& tensors,
                                         bool after_blocks);

// Whether a block has the names of Megatron.
bool HasMegatronBlockNames(const std::vector<TensorInfo>& tensors);

// The whole names that a tensor gets.
enum class PipelineNames {
  kMegatron,
  kBloom,
  kNeox,
  kModel,  // model.layers.N., as LLaMA and many others
};

// The name of `name`, below a layer of `role`, in the whole model; `block` is
// the number of a block. "" for buffers that the model makes anew.
std::string NameInModel(PipelineNames names, PipelineRole role, int64_t block,
                        absl::string_view name);

// The same from Megatron's whole name.
std::string FromMegatronName(PipelineNames names, absl::string_view name);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PIPELINE_NAMES_H_
