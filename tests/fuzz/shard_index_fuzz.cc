// model.safetensors.index.json: names of shards stay in their folder.
#include <algorithm>

#include "absl/strings/match.h"
#include "compiler/checkpoint/shard_index.h"
#include "schema/base/file.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(shard_index) {
  const auto index = ReadShardIndex(input, "model.safetensors.index.json");
  if (!index.ok()) return CheckRefusal(index.status());
  FUZZ_CHECK(std::is_sorted(index->shards.begin(), index->shards.end()));
  for (const std::string& shard : index->shards) {
    FUZZ_CHECK(IsSafeRelativePath(shard));
    FUZZ_CHECK(absl::EndsWith(shard, ".safetensors"));
    ParseShardNumber(shard);
  }
  FindMissingPart(index->shards);
}

}  // namespace
}  // namespace deepslice
