#include "runtime/backend/cuda/target_choice.h"

#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(TargetFit, OwnArchitectureThenBinariesThenPtx) {
  EXPECT_GT(TargetFit("sm_90a", 9, 0), TargetFit("sm_90", 9, 0));
  EXPECT_GT(TargetFit("sm_90", 9, 0), TargetFit("compute_90", 9, 0));
  EXPECT_GT(TargetFit("compute_90", 9, 0), TargetFit("compute_80", 9, 0));
  EXPECT_GT(TargetFit("sm_89", 8, 9), TargetFit("sm_86", 8, 9));
}

TEST(TargetFit, RefusesWhatTheDeviceCantRun) {
  EXPECT_EQ(TargetFit("sm_90a", 9, 1), 0);
  EXPECT_EQ(TargetFit("sm_90a", 10, 0), 0);
  EXPECT_EQ(TargetFit("sm_86", 8, 0), 0);
  EXPECT_EQ(TargetFit("sm_80", 9, 0), 0);
  EXPECT_EQ(TargetFit("compute_90", 8, 9), 0);
  EXPECT_GT(TargetFit("compute_80", 12, 0), 0);
  for (const char* name : {"cpu", "", "sm_", "sm_9x", "sm_-90", "compute_"}) {
    EXPECT_EQ(TargetFit(name, 9, 0), 0) << name;
  }
}

TEST(KernelsMayOverlap, CountsWhatTheyWereCompiledForNotTheCard) {
  for (const char* name : {"sm_90a", "sm_90", "compute_90", "sm_100"}) {
    EXPECT_TRUE(KernelsMayOverlap(name)) << name;
  }
  for (const char* name : {"cpu", "sm_80", "sm_89", "compute_80"}) {
    EXPECT_FALSE(KernelsMayOverlap(name)) << name;
  }
}

}  // namespace
}  // namespace deepslice
