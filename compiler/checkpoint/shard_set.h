// Several files of safetensors or of torch.save as one set of tensors, with or
// without an index that says which file holds which tensor.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_SHARD_SET_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_SHARD_SET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/shard_index.h"

namespace deepslice {

// Both append to parts->sources and parts->tensors, and notes to parts->notes.
// Files are named relative to `folder`. A tensor found in two files is taken
// once when the bytes are equal (noted), else refused.

// The files of the index, which must agree with it: every shard present, every
// tensor in the shard the index names, no tensor that it leaves out.
// `present`: the files of that kind in the folder, for hints.
absl::Status ReadIndexedShards(const std::string& folder,
                               const std::string& index_path,
                               const ShardIndex& index,
                               const std::vector<std::string>& present,
                               CheckpointParts* parts);

// All of `names`, whatever they hold.
absl::Status ReadAllShards(const std::string& folder,
                           const std::vector<std::string>& names,
                           CheckpointParts* parts);

// At most three names, quoted, "and N more".
std::string ShortList(const std::vector<std::string>& names);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_SHARD_SET_H_
