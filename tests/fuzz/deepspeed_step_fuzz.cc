// Ranks of DeepSpeed's training: two files of model_states and two of
// optim_states, joined as partitions and as tensor-parallel parts.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/deepspeed_cut.h"
#include "compiler/checkpoint/deepspeed_shard.h"
#include "compiler/checkpoint/deepspeed_zero.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "tests/fuzz/checkpoint_rows.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

constexpr int kRanks = 2;

void Read(absl::StatusOr<std::vector<TensorInfo>> tensors,
          const std::vector<SourceBytes>& sources) {
  if (!tensors.ok()) return CheckRefusal(tensors.status());
  CheckpointParts parts;
  parts.tensors = *std::move(tensors);
  parts.sources = sources;
  ReadAllRows(*MakeCheckpoint(std::move(parts)));
}

FUZZ_TARGET(deepspeed_step) {
  std::vector<SourceBytes> sources;
  for (const absl::string_view bytes : SplitParts(input, 2 * kRanks)) {
    sources.push_back({absl::StrCat(sources.size(), ".pt"), bytes, {}});
  }
  std::vector<DeepSpeedShard> states;
  std::vector<ZeroShard> optims;
  for (int r = 0; r < kRanks; ++r) {
    auto state = ReadDeepSpeedShard(sources[r], r);
    if (!state.ok()) return CheckRefusal(state.status());
    states.push_back(*std::move(state));
  }
  states[0].has_weights();
  std::vector<const MegatronShard*> ranks;
  for (const DeepSpeedShard& s : states) ranks.push_back(&s.state);
  Read(MergeRanks(ranks, states[0].cuts.value_or(RankCuts()), sources),
       sources);
  for (int r = 0; r < kRanks; ++r) {
    auto optim = ReadZeroShard(sources[kRanks + r], kRanks + r);
    if (!optim.ok()) return CheckRefusal(optim.status());
    optims.push_back(*std::move(optim));
  }
  Read(JoinZeroPartitions(states, optims), sources);
}

}  // namespace
}  // namespace deepslice
