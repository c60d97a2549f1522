#include "tools/dsrun_report.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schema/base/json.h"

namespace deepslice {
namespace {

TEST(MemoryReport, ComparesOnlyWhatThePlanForesees) {
  const std::vector<Executor::MemoryLine> lines = {{"weights", 1000, 990, true},
                                                   {"context", 0, 5000, false},
                                                   {"cache", 600, 600, true}};
  const std::string text = MemoryReport(lines, 0, 1);
  EXPECT_NE(text.find("ratio 0.9938"), std::string::npos) << text;
  EXPECT_LT(text.find("cache"), text.find("of the plan"));
  EXPECT_GT(text.find("context"), text.find("of the plan"));
  EXPECT_EQ(text.find("rank"), std::string::npos);
  EXPECT_NE(MemoryReport(lines, 2, 3).find("rank 2 memory"), std::string::npos);
  EXPECT_NE(MemoryReport({}, 0, 1).find("ratio 1.0000"), std::string::npos);
}

TEST(LoadReport, GivesTheRate) {
  EXPECT_EQ(LoadReport(16'000'000'000, 0.4),
            "16.00 GB of weights came in 0.4000 s, 40.0 GB/s\n");
  EXPECT_EQ(LoadReport(0, 0), "");
}

const std::vector<Executor::StepTiming> kTimings = {
    {"decode_1", "%q", "linear_mma", 0, 0.0, 12.5},
    {"decode_1", "%a", "attention", 0, 13.0, 30.0},
    {"decode_1", "%d", "linear_mma", 1, 44.0, 10.0}};

TEST(ChromeTrace, IsOneEventAStep) {
  const auto v = json::Parse(ChromeTrace(kTimings, 3));
  ASSERT_TRUE(v.ok()) << v.status();
  const auto& events = v->Find("traceEvents")->items();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].Find("name")->as_string(), "%a");
  EXPECT_EQ(events[1].Find("cat")->as_string(), "attention");
  EXPECT_EQ(events[1].Find("ph")->as_string(), "X");
  EXPECT_EQ(events[1].Find("ts")->as_double(), 13.0);
  EXPECT_EQ(events[1].Find("dur")->as_double(), 30.0);
  EXPECT_EQ(events[1].Find("pid")->as_int(), 3);
  EXPECT_EQ(events[2].Find("args")->Find("layer")->as_int(), 1);
}

TEST(ProfilePath, GivesEveryRankAFile) {
  EXPECT_EQ(ProfilePath("a.b/out.json", 0), "a.b/out.json");
  EXPECT_EQ(ProfilePath("a.b/out.json", 2), "a.b/out.rank2.json");
  EXPECT_EQ(ProfilePath("a.b/out", 1), "a.b/out.rank1");
}

TEST(TimeByKind, AddsUpAndSorts) {
  const auto kinds = TimeByKind(kTimings);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].kind, "attention");
  EXPECT_EQ(kinds[1].kind, "linear_mma");
  EXPECT_EQ(kinds[1].steps, 2);
  EXPECT_EQ(kinds[1].us, 22.5);
}

}  // namespace
}  // namespace deepslice
