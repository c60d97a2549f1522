#include "compiler/source_hashes.h"

#include <atomic>

#include "compiler/checkpoint/loaded_checkpoint.h"
#include "schema/base/digest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Two files of 50 MiB: "a" lies in the first from 10 MiB on, "b" from 30 MiB
// on and in the second from 25 MiB on, "c" in the second from 0 on, "unread" in
// the first from 40 MiB on.
class SourceHashesTest : public testing::Test {
 protected:
  SourceHashesTest()
      : bytes_{std::string(50 * kMiB, 'x'), std::string(50 * kMiB, 'y')} {
    for (std::string& s : bytes_) {
      for (size_t i = 0; i < s.size(); i += 4093) s[i] = static_cast<char>(i);
    }
    CheckpointParts parts;
    const auto add = [&](const char* name, int file, uint64_t offset) {
      TensorInfo t;
      t.name = name;
      t.dtype = DType::kBF16;
      t.shape = {10, 7};
      t.file = file;
      t.offset = offset;
      t.bytes = 140;
      parts.tensors.push_back(std::move(t));
      return &parts.tensors.back();
    };
    add("a", 0, 10 * kMiB);
    TensorInfo* b = add("b", 0, 0);
    b->parts = {{0, 0, 6, 7, 0, 30 * kMiB, 7, 1},
                {6, 0, 4, 7, 1, 25 * kMiB, 7, 1}};
    add("c", 1, 0);
    add("unread", 0, 40 * kMiB);
    for (const std::string& s : bytes_) parts.sources.push_back({"f", s, {}});
    checkpoint_ = MakeCheckpoint(std::move(parts));
    hashes_ = std::make_unique<SourceHashes>(
        checkpoint_.get(), &jobs_, [this](uint64_t n) { hashed_ += n; });
  }

  static Weight Of(std::vector<std::string> tensors) {
    Weight w;
    for (std::string& t : tensors) {
      w.source.pieces.push_back({std::move(t), false, {0, 10}, {0, 7}});
    }
    return w;
  }

  std::vector<std::string> bytes_;
  std::unique_ptr<Checkpoint> checkpoint_;
  JobQueue jobs_;
  std::atomic<uint64_t> hashed_{0};
  std::unique_ptr<SourceHashes> hashes_;
};

TEST_F(SourceHashesTest, FollowsTheWeights) {
  // As two ranks read them.
  const Weight a = Of({"a"}), bc = Of({"b", "c"}), b = Of({"b"});
  for (const Weight* w : {&a, &bc, &a, &b}) hashes_->Expect(*w);
  hashes_->Start();
  EXPECT_EQ(hashes_->ready(0), 10 * kMiB);
  EXPECT_EQ(hashes_->ready(1), 0u);
  hashes_->Done(a);
  EXPECT_EQ(hashes_->ready(0), 10 * kMiB);
  DS_ASSERT_OK(jobs_.Run(1));
  EXPECT_EQ(hashed_, 0u);  // not worth a job
  hashes_->Done(a);
  EXPECT_EQ(hashes_->ready(0), 30 * kMiB);
  DS_ASSERT_OK(jobs_.Run(1));
  EXPECT_EQ(hashed_, 30 * kMiB);
  hashes_->Done(bc);
  EXPECT_EQ(hashes_->ready(0), 30 * kMiB);
  EXPECT_EQ(hashes_->ready(1), 25 * kMiB);
  EXPECT_EQ(hashes_->sha256(0), "");
  hashes_->Done(b);
  EXPECT_EQ(hashes_->ready(0), 50 * kMiB);
  EXPECT_EQ(hashes_->ready(1), 50 * kMiB);
  DS_ASSERT_OK(jobs_.Run(3));
  EXPECT_EQ(hashed_, 100 * kMiB);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(hashes_->sha256(i), Sha256Hex(bytes_[i])) << i;
  }
}

TEST_F(SourceHashesTest, TakesFilesThatNobodyReads) {
  hashes_->Start();
  EXPECT_EQ(hashes_->ready(0), 50 * kMiB);
  DS_ASSERT_OK(jobs_.Run(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(hashes_->sha256(i), Sha256Hex(bytes_[i])) << i;
  }
}

TEST_F(SourceHashesTest, MeetsWeightsOnSeveralThreads) {
  const Weight a = Of({"a"}), b = Of({"b"}), c = Of({"c"});
  for (int i = 0; i < 300; ++i) {
    const Weight& w = i % 3 == 0 ? a : i % 3 == 1 ? b : c;
    hashes_->Expect(w);
    jobs_.Add([this, &w] {
      hashes_->Done(w);
      return absl::OkStatus();
    });
  }
  hashes_->Start();
  DS_ASSERT_OK(jobs_.Run(4));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(hashes_->sha256(i), Sha256Hex(bytes_[i])) << i;
  }
}

}  // namespace
}  // namespace deepslice
