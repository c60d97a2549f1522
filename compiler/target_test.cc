#include "compiler/target.h"

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(ParseTarget, KnowsTheCpu) {
  const auto t = ParseTarget("CPU");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_TRUE(t->cpu);
  EXPECT_EQ(t->name, "cpu");
}

TEST(ParseTarget, KnowsArchitecturesAndPtx) {
  const auto a = ParseTarget("sm_86");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->name, "sm_86");
  EXPECT_EQ(a->gpu.name, "sm_86");
  EXPECT_EQ(a->gpu.major, 8);
  EXPECT_EQ(a->gpu.minor, 6);
  EXPECT_FALSE(a->gpu.ptx);
  EXPECT_EQ(a->gpu.shared_bytes, 101376);
  EXPECT_EQ(a->device_memory, 0);
  const auto p = ParseTarget("compute-90");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->name, "compute_90");
  EXPECT_TRUE(p->gpu.ptx);
  // A card of 12.0 runs it and has less shared memory than one of 9.0.
  EXPECT_EQ(p->gpu.shared_bytes, 101376);
}

TEST(ParseTarget, TakesSm90ForSm90aAndSaysSo) {
  const auto t = ParseTarget("sm_90");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->name, "sm_90a");
  EXPECT_NE(t->note.find("compiled as sm_90a"), std::string::npos) << t->note;
  EXPECT_TRUE(ParseTarget("sm_90a")->note.empty());
}

TEST(ParseTarget, KnowsCardsByAnySpelling) {
  for (const char* name : {"rtx 4090", "RTX-4090", "rtx_4090", "rtx4090"}) {
    const auto t = ParseTarget(name);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->name, "sm_89");
    EXPECT_EQ(t->gpu.num_sms, 128);
    EXPECT_EQ(t->device_memory, int64_t{24564} << 20);
  }
}

TEST(ParseTarget, HintsAtTheNearestName) {
  DS_EXPECT_ERROR(ParseTarget("h20"), kInvalidArgument,
                  "--target h20: unknown; the nearest is h200; allowed: cpu, "
                  "sm_80");
  DS_EXPECT_ERROR(ParseTarget("zzzzzzzzzzzz"), kInvalidArgument,
                  "--target zzzzzzzzzzzz: unknown; allowed: cpu");
  DS_EXPECT_ERROR(ParseTarget("sm_70"), kUnimplemented, "GPUs before 8.0");
  DS_EXPECT_ERROR(ParseTarget("sm_900"), kInvalidArgument, "unknown");
  DS_EXPECT_ERROR(ParseTarget(""), kInvalidArgument, "unknown");
}

}  // namespace
}  // namespace deepslice
