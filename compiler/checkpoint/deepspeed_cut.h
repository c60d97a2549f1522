// How tensor-parallel ranks of DeepSpeed's AutoTP cut the tensors of a model of
// Hugging Face, as universal_checkpoint_info in their files tells it.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_CUT_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_CUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron_shard.h"
#include "compiler/checkpoint/pickle_value.h"

namespace deepslice {

// A tensor that is none of these is cut along dim 0, each rank's part as long
// as it is.
struct RankCut {
  enum Kind {
    kCopy,     // every rank has it whole
    kColumns,  // along dim 1
    kVocab,    // along dim 0, and may be padded at its end
    kBlocks,   // it holds tensors along `dim`, each of which is cut
    kRefused,  // in a way that is not read; `why`
  };
  Kind kind = kCopy;
  int dim = 0;
  // The widths of each block, by rank; empty: `blocks` alike, cut evenly.
  std::vector<std::vector<int64_t>> widths;
  int64_t blocks = 1;
  std::string why;
};

struct RankCuts {
  absl::flat_hash_map<std::string, RankCut> by_name;
  int64_t vocab = 0;  // rows without padding; 0: not told
  std::string bad;    // not empty: what in it can't be read, and why
};

// Of the value under universal_checkpoint_info. Names are patterns there, all
// of which match one name; others make it bad.
RankCuts ReadRankCuts(const pickle::Value& info);

// The whole tensors of all ranks, whose chunk 0 holds theirs; TensorInfo::file
// and those of parts are indexes into `sources`.
absl::StatusOr<std::vector<TensorInfo>> MergeRanks(
    const std::vector<const MegatronShard*>& ranks, const RankCuts& cuts,
    const std::vector<SourceBytes>& sources);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_CUT_H_
