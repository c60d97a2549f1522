// The tensors of all ranks of a Megatron checkpoint as the whole model's: one
// rule a name, pieces of files and no copies.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_MERGE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_MERGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron_files.h"
#include "compiler/checkpoint/megatron_shard.h"

namespace deepslice {

struct MegatronShape {
  bool thirds = false;  // query_key_value is [queries; keys; values] of a rank
  bool gated = false;   // dense_h_to_4h is [gate; up] of a rank
  bool cut_experts = false;  // else each rank has experts whole
  // Of the whole model; 0: not known, and then not checked.
  int64_t heads = 0, groups = 0, head_dim = 0;
};

// `shards` are in the order of files.paths; TensorInfo::file and those of parts
// are indexes into `sources`. Names stay Megatron's; layers are numbered
// through the stages (and the chunks of a virtual pipeline), and the
// embedding's copy of the last stage is left out. Tensors that all ranks hold a
// copy of must be equal. Errors name the ranks' files and the tensor.
absl::StatusOr<std::vector<TensorInfo>> MergeMegatron(
    const MegatronFiles& files, const std::vector<MegatronShard>& shards,
    const MegatronShape& shape, const std::vector<SourceBytes>& sources);

// Whether a merged tensor's rows are the vocabulary's.
bool HasVocabRows(absl::string_view name);

// Cuts a tensor to its first `rows` rows, of which it has more.
void CutRows(int64_t rows, TensorInfo* t);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_MERGE_H_
