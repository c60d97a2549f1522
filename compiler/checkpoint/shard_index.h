// model.safetensors.index.json and pytorch_model.bin.index.json: which shard
// holds which tensor.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_SHARD_INDEX_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_SHARD_INDEX_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// What the files of a model are.
enum class WeightFiles { kSafetensors, kTorch };

// Whether a name ends as such files do: .safetensors; .bin, .pt or .pth.
bool IsWeightFile(absl::string_view name, WeightFiles kind);

struct ShardIndex {
  // Tensor name and shard file name, sorted by tensor; names unique.
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::vector<std::string> shards;  // sorted, each once
  // metadata.total_size: the data bytes of all tensors, as the writer counted.
  std::optional<double> total_size;
};

// Reads the text of an index; `path` is its name in errors. Every shard name is
// a relative path that stays in the folder and ends as files of that kind do.
absl::StatusOr<ShardIndex> ReadShardIndex(
    absl::string_view text, const std::string& path,
    WeightFiles kind = WeightFiles::kSafetensors);

// A name like model-00002-of-00005.safetensors, or with an ending of PyTorch's.
struct ShardNumber {
  std::string family;  // "model-*-of-00005"
  std::string ending;  // ".safetensors"
  int64_t part = 0;
  int64_t parts = 0;
};
std::optional<ShardNumber> ParseShardNumber(absl::string_view name);

// The first name that a numbered family among `names` lacks; empty when every
// family is whole. Names without numbers are skipped.
std::string FindMissingPart(const std::vector<std::string>& names);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_SHARD_INDEX_H_
