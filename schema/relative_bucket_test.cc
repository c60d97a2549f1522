#include "schema/relative_bucket.h"

#include <vector>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

std::vector<int64_t> Buckets(int64_t from, int64_t to, int64_t buckets,
                             int64_t max_distance, bool both_directions) {
  std::vector<int64_t> out;
  for (int64_t d = from; d <= to; ++d) {
    out.push_back(RelativeBucket(d, buckets, max_distance, both_directions));
  }
  return out;
}

// As the published T5 gives them.
TEST(RelativeBucket, CountsNearDistancesAndGroupsFarOnes) {
  EXPECT_EQ(
      Buckets(-12, 12, 32, 128, true),
      (std::vector<int64_t>{9,  8,  8,  8,  8,  7,  6,  5,  4,  3,  2,  1, 0,
                            17, 18, 19, 20, 21, 22, 23, 24, 24, 24, 24, 25}));
  EXPECT_EQ(Buckets(-20, 2, 32, 128, false),
            (std::vector<int64_t>{17, 17, 16, 16, 16, 15, 14, 13, 12, 11, 10, 9,
                                  8,  7,  6,  5,  4,  3,  2,  1,  0,  0,  0}));
}

TEST(RelativeBucket, KeepsAllFarDistancesInTheLastBucket) {
  for (const int64_t d : {128, 129, 1000, 100000}) {
    EXPECT_EQ(RelativeBucket(-d, 32, 128, true), 15);
    EXPECT_EQ(RelativeBucket(d, 32, 128, true), 31);
    EXPECT_EQ(RelativeBucket(-d, 32, 128, false), 31);
    EXPECT_EQ(RelativeBucket(d, 32, 128, false), 0);
  }
}

TEST(RelativeBucket, SaysWhichCountsHaveAMeaning) {
  EXPECT_TRUE(AreRelativeBuckets(32, 128, true));
  EXPECT_TRUE(AreRelativeBuckets(4, 2, true));
  EXPECT_FALSE(AreRelativeBuckets(3, 128, true));
  EXPECT_TRUE(AreRelativeBuckets(2, 2, false));
  EXPECT_FALSE(AreRelativeBuckets(1, 128, false));
  EXPECT_FALSE(AreRelativeBuckets(32, 8, true));
  EXPECT_FALSE(AreRelativeBuckets(32, kMostRelativeDistance + 1, true));
}

}  // namespace
}  // namespace deepslice
