// What a rank's files of DeepSpeed's training hold: model_states and
// optim_states.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_SHARD_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_SHARD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/deepspeed_cut.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron_shard.h"

namespace deepslice {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
  bool operator==(const NamedShape& o) const {
    return name == o.name && shape == o.shape;
  }
};

// By group of the optimizer, in the order in which its partitions hold them.
using ParamShapes = std::vector<std::vector<NamedShape>>;

// num_experts: one number for all MoE layers, or one for each.
struct ExpertCounts {
  bool listed = false;
  std::vector<int64_t> counts;
};

// A file of model_states; the index of its source is every TensorInfo::file.
struct DeepSpeedShard {
  // The path, and args, checkpoint_version and iteration of the client state;
  // its one chunk holds the tensors of `module`, of which there may be none.
  MegatronShard state;
  bool has_version = false;  // checkpoint_version is there
  absl::optional<int64_t> global_steps, mp_world_size, dp_world_size;
  ParamShapes param_shapes;
  std::vector<NamedShape> frozen_shapes;
  std::vector<TensorInfo> frozen;            // frozen_param_fragments
  absl::flat_hash_set<std::string> buffers;  // buffer_names
  // Another name of a tensor, and the name that the tensor has.
  std::vector<std::pair<std::string, std::string>> shared;
  absl::optional<ExpertCounts> experts;  // num_experts
  absl::optional<RankCuts> cuts;         // universal_checkpoint_info

  const std::vector<TensorInfo>& module() const { return state.chunks[0]; }
  // Whether `module` has the elements of parameters, and no placeholders.
  bool has_weights() const;
};

// A file of optim_states: one partition of every group's parameters.
struct ZeroShard {
  std::string path;
  int stage = 0;  // of ZeRO: 1, 2 or 3 (2 stands for both of the first)
  int64_t partitions = 0;          // how many there are; 0: not told
  std::vector<TensorInfo> groups;  // flat, all in this file
  ParamShapes param_shapes;        // of versions of 2021; else empty
  // Elements between a group's parameters, after each of them; of ZeRO 1 and 2
  // with parameter_alignment alone, else empty.
  std::vector<std::vector<int64_t>> gaps;
};

// `source` is the mapped file, `file` its index among the sources.
absl::StatusOr<DeepSpeedShard> ReadDeepSpeedShard(const SourceBytes& source,
                                                  int file);
absl::StatusOr<ZeroShard> ReadZeroShard(const SourceBytes& source, int file);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_SHARD_H_
