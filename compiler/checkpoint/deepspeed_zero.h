// Whole tensors out of the flat partitions that ZeRO's ranks keep.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_ZERO_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_ZERO_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/deepspeed_shard.h"

namespace deepslice {

// Makes elements [at, at + count) of `t`, in row-major order, those of `flat`
// (a vector without gaps) from `from` on: at most three parts.
void AddFlatSlice(const TensorInfo& flat, int64_t from, int64_t at,
                  int64_t count, TensorInfo* t);

// The tensors of one model-parallel rank. `optims` holds the partitions of all
// its data-parallel ranks in order; `states` their files of model_states, or
// the only one, or none where `optims` tell the shapes. The parameters come
// from the partitions, frozen ones from their fragments, and what else
// states[0] has (buffers) from there. A placeholder without a partition is
// unreadable.
absl::StatusOr<std::vector<TensorInfo>> JoinZeroPartitions(
    const std::vector<DeepSpeedShard>& states,
    const std::vector<ZeroShard>& optims);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_ZERO_H_
