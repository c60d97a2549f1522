// The file of one rank of a Megatron checkpoint: its arguments and its tensors.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_SHARD_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_SHARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/torch_file.h"
#include "schema/base/json.h"

namespace deepslice {

struct MegatronShard {
  std::string path;
  // The arguments of the training run that are plain data, under their own
  // names; null when the file has none.
  json::Value args;
  int version = 0;  // checkpoint_version: 0, 1, 2 or 3; absent means 0
  absl::optional<int64_t> iteration;
  // The tensors of `model`, or of `model0`, `model1`, ... of a virtual
  // pipeline, under their names below it; TensorInfo::file is as given.
  std::vector<std::vector<TensorInfo>> chunks;
};

// The version that a number in a file or a list means; InvalidArgument for
// others than 0, 1, 2 and 3.
absl::StatusOr<int> MegatronVersion(double number);

// All but the tensors, of a file's dict.
absl::StatusOr<MegatronShard> ReadMegatronState(const TorchFile& torch);

// `bytes` is the whole file, `path` its name in errors, `file` its index.
absl::StatusOr<MegatronShard> ReadMegatronShard(absl::string_view bytes,
                                                const std::string& path,
                                                int file);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_SHARD_H_
