// The ranks of Meta's LLaMA files as whole tensors under Hugging Face's names:
// one rule a name.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_META_MERGE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_META_MERGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/meta_params.h"

namespace deepslice {

// What the tensors say of the model.
struct MetaShape {
  int64_t inner_size = 0, vocab_size = 0;
  bool has_head = false;  // else it is the embedding
};

// Reads the ranks' files and appends to parts->sources, tensors and notes. Rows
// of queries and keys get Hugging Face's order of rotary pairs. Every tensor of
// every layer must be there, fit `params`, and be equal where ranks have
// copies.
absl::StatusOr<MetaShape> MergeMetaRanks(const MetaParams& params,
                                         const std::vector<std::string>& paths,
                                         CheckpointParts* parts);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_META_MERGE_H_
