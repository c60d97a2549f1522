// Sequences over a step that only notes what it is given: lengths, blocks and
// chunks.
#include "runtime/api/step_sequences.h"

#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Feed = StepSequences::Feed;
using Rows = StepSequences::Rows;
using Ids = std::vector<int32_t>;

constexpr int64_t kVocab = 100;

// Stands for an executor: it keeps ids by block and place, as one keeps keys
// and values. A row says its token's id, position, slot, and the sum of the ids
// of its sequence so far.
class Steps {
 public:
  explicit Steps(const ScheduleLimits& limits) : limits_(limits) {}

  absl::StatusOr<const float*> Run(const StepBatch& b) {
    sizes.push_back(static_cast<int>(b.ids.size()));
    logits_.assign(b.rows.size() * kVocab, 0);
    for (size_t t = 0; t < b.ids.size(); ++t) {
      cache_[Place(b, b.slots[t], b.positions[t])] = b.ids[t];
    }
    for (size_t r = 0; r < b.rows.size(); ++r) {
      const int32_t t = b.rows[r];
      int32_t sum = 0;
      for (int32_t p = 0; p <= b.positions[t]; ++p) {
        sum += cache_[Place(b, b.slots[t], p)];
      }
      const int32_t row[] = {b.ids[t], b.positions[t], b.slots[t], sum};
      for (int i = 0; i < 4; ++i) {
        logits_[r * kVocab + i] = static_cast<float>(row[i]);
      }
    }
    return logits_.data();
  }

  std::vector<int> sizes;  // tokens of each step

 private:
  std::pair<int32_t, int64_t> Place(const StepBatch& b, int32_t slot,
                                    int32_t position) const {
    const int64_t at =
        slot * limits_.blocks_per_seq + position / limits_.block_tokens;
    return {b.blocks[at], position % limits_.block_tokens};
  }

  const ScheduleLimits limits_;
  std::vector<float> logits_;
  std::map<std::pair<int32_t, int64_t>, int32_t> cache_;
};

class StepSequencesTest : public ::testing::Test {
 protected:
  absl::Status Run(std::vector<Feed> feeds) {
    logits_.clear();
    return sequences_.Run(
        feeds, [&](const StepBatch& b) { return steps_.Run(b); }, &logits_);
  }
  std::vector<int> Row(int r) const {
    return {logits_.begin() + r * kVocab, logits_.begin() + r * kVocab + 4};
  }
  int rows() const { return static_cast<int>(logits_.size() / kVocab); }

  // Three sequences of up to 12 tokens, in blocks of 4; 7 blocks in all.
  const ScheduleLimits limits_ = {.max_batch = 3,
                                  .max_step_tokens = 5,
                                  .blocks_per_seq = 3,
                                  .num_blocks = 7,
                                  .block_tokens = 4};
  Steps steps_{limits_};
  StepSequences sequences_{limits_, 12, kVocab};
  std::vector<float> logits_;
};

TEST_F(StepSequencesTest, FeedsThatExceedAStepRunInSeveral) {
  const Ids a = {1, 2, 3, 4, 5, 6}, b = {10, 11};
  DS_ASSERT_OK(Run({{2, a, Rows::kLast}, {0, b, Rows::kAll}}));
  EXPECT_EQ(steps_.sizes, std::vector<int>({5, 3}));
  ASSERT_EQ(rows(), 3);
  EXPECT_EQ(Row(0), std::vector<int>({6, 5, 2, 21}));
  EXPECT_EQ(Row(1), std::vector<int>({10, 0, 0, 10}));
  EXPECT_EQ(Row(2), std::vector<int>({11, 1, 0, 21}));
  EXPECT_EQ(sequences_.length(2), 6);
  EXPECT_EQ(sequences_.length(1), 0);
  EXPECT_EQ(sequences_.length(3), -1);
  EXPECT_EQ(sequences_.length(-1), -1);
}

TEST_F(StepSequencesTest, GoesOnBehindWhatIsLeftOfASequence) {
  const Ids a = {1, 2, 3, 4, 5, 6}, b = {7};
  DS_ASSERT_OK(Run({{1, a, Rows::kNone}}));
  EXPECT_EQ(rows(), 0);
  DS_ASSERT_OK(sequences_.Truncate(1, 3));
  DS_ASSERT_OK(Run({{1, b, Rows::kLast}}));
  EXPECT_EQ(Row(0), std::vector<int>({7, 3, 1, 1 + 2 + 3 + 7}));
  DS_EXPECT_ERROR(sequences_.Truncate(1, 5), kInvalidArgument,
                  "holds 4 tokens; can't be cut to 5");
  DS_EXPECT_ERROR(sequences_.Truncate(1, -1), kInvalidArgument, "to -1");
  DS_EXPECT_ERROR(sequences_.Truncate(3, 0), kInvalidArgument, "sequence 3");
}

TEST_F(StepSequencesTest, BlocksThatAreShortLeaveAllAsItWas) {
  const Ids nine(9, 1), five(5, 2);
  DS_ASSERT_OK(Run({{0, nine, Rows::kNone}, {1, five, Rows::kNone}}));
  // Two blocks are free: sequence 1 takes one first, sequence 2 needs two.
  DS_EXPECT_ERROR(Run({{1, five, Rows::kLast}, {2, five, Rows::kLast}}),
                  kResourceExhausted, "needs 2 more blocks of the cache; 1 of");
  EXPECT_EQ(sequences_.length(1), 5);
  EXPECT_EQ(sequences_.length(2), 0);
  DS_ASSERT_OK(Run({{2, five, Rows::kLast}}));
  // What one sequence gives up another takes.
  DS_EXPECT_ERROR(Run({{1, five, Rows::kLast}}), kResourceExhausted, "0 of 7");
  DS_ASSERT_OK(sequences_.Truncate(0, 8));
  DS_ASSERT_OK(Run({{1, five, Rows::kLast}}));
  EXPECT_EQ(Row(0), std::vector<int>({2, 9, 1, 20}));
}

TEST_F(StepSequencesTest, RefusesBeforeAnythingRuns) {
  const Ids good = {1, 2}, bad = {1, 100}, thirteen(13, 1);
  const auto refused = [&](const Feed& feed, const char* words) {
    DS_EXPECT_ERROR(Run({{0, good, Rows::kLast}, feed}), kInvalidArgument,
                    words);
  };
  refused({3, good}, "feed 1: sequence 3; 0 to 2 are allowed");
  refused({-1, good}, "sequence -1");
  refused({0, good}, "sequence 0 again");
  refused({1, {}}, "no ids");
  refused({1, bad}, "100");
  refused({1, thirteen}, "holds 0 tokens, and 13 more exceed");
  EXPECT_TRUE(steps_.sizes.empty());
  EXPECT_EQ(sequences_.length(0), 0);
}

}  // namespace
}  // namespace deepslice
