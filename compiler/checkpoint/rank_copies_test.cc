#include "compiler/checkpoint/rank_copies.h"

#include <string>
#include <vector>

#include "compiler/checkpoint/loaded_checkpoint.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// One matrix of two bf16 columns, of which each file has two rows behind one
// byte.
absl::Status Check(const std::vector<std::string>& files) {
  TensorInfo t;
  t.name = "t";
  t.dtype = DType::kBF16;
  t.shape = {2 * static_cast<int64_t>(files.size()), 2};
  CheckpointParts parts;
  for (size_t i = 0; i < files.size(); ++i) {
    TensorPart part;
    part.row = 2 * i;
    part.rows = part.columns = part.row_stride = 2;
    part.file = i;
    part.offset = 1;
    t.parts.push_back(part);
    parts.sources.push_back({absl::StrCat("rank", i), files[i], {}});
  }
  parts.tensors.push_back(std::move(t));
  return CheckNoCopiedRank(*MakeCheckpoint(std::move(parts)));
}

TEST(RankCopies, FilesThatDifferPass) {
  DS_ASSERT_OK(Check({"xaabbccdd", "xaabbccde"}));
  DS_ASSERT_OK(Check({"xaabbccdd", "xaabbccddx"}));
  DS_ASSERT_OK(Check({"xaabbccdd"}));
}

TEST(RankCopies, TheSameBytesAreRefused) {
  EXPECT_EQ(Check({"xaabbccdd", "xaabbccde", "xaabbccdd"}),
            absl::InvalidArgumentError(
                "rank2: is rank0 byte for byte, but each rank has its own part "
                "of the model; copy the rank's own file again"));
}

// Partitions that are all padding, or norms before any training.
TEST(RankCopies, OneValueOverAndOverPasses) {
  DS_ASSERT_OK(Check({"xaaaaaaaa", "xaaaaaaaa"}));
}

// Files of placeholders, of which no tensor is made.
TEST(RankCopies, FilesWithoutPartsPass) {
  CheckpointParts parts;
  TensorInfo t;
  t.name = "t";
  t.dtype = DType::kBF16;
  t.shape = {2, 2};
  t.bytes = 8;
  parts.tensors.push_back(t);
  for (const char* name : {"a", "b"}) {
    parts.sources.push_back({name, "aabbccdd", {}});
  }
  DS_ASSERT_OK(CheckNoCopiedRank(*MakeCheckpoint(std::move(parts))));
}

}  // namespace
}  // namespace deepslice
