// The files that a checkpoint.json of type ds_model or BLOOM lists: shards of
// Hugging Face, ranks of a training run, or a folder.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_LIST_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

struct DeepSpeedList {
  std::string where;               // the list's path
  std::vector<std::string> paths;  // at least one
  bool cut = false;                // parallelization is tp
  absl::optional<int64_t> ranks;   // tp_size or mp_size; of cut files alone
  std::vector<std::string> notes;
};

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeedList(
    const DeepSpeedList& list, const OpenOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_LIST_H_
