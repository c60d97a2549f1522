#include "schema/base/nearest.h"

#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(EditDistance("", "tp"), 2);
  EXPECT_EQ(EditDistance("slice", "splice"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("linear", "linear"), 0);
}

TEST(NearestName, FindsATypoAndLeavesStrangersAlone) {
  const std::vector<absl::string_view> names = {"fuse-qkv", "fuse-norm",
                                                "tensor-slice"};
  EXPECT_EQ(NearestName("fuse-qvk", names), "fuse-qkv");
  EXPECT_EQ(NearestName("tensorslice", names), "tensor-slice");
  EXPECT_EQ(NearestName("banana", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName(std::string(100'000, 'a'), names), "");
}

}  // namespace
}  // namespace deepslice
