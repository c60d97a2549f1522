#include "tools/bench_result.h"

#include <string>

#include "gtest/gtest.h"
#include "schema/base/json.h"

namespace deepslice {
namespace {

BenchResult Sample() {
  BenchResult r;
  r.plan_set_id = "abc";
  r.batch = 3;
  r.prompt_tokens = 512;
  r.new_tokens = 128;
  r.repetitions = 2;
  r.prefill_rate = {900, 1000};
  r.prefill_ms = {1400, 1536};
  r.decode_rate = {2900, 3000};
  r.decode_ms = {0.98, 1.0};
  r.decode_steps = 119;
  r.bytes = {3'000'000'000, 500'000'000};
  return r;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Summarize, GivesSmallestAndMedian) {
  EXPECT_EQ(Summarize({5, 1, 4}).min, 1);
  EXPECT_EQ(Summarize({5, 1, 4}).median, 4);
  EXPECT_EQ(Summarize({8, 2}).median, 5);
  EXPECT_EQ(Summarize({}).median, 0);
}

TEST(BenchResult, SharesComeFromTheMedian) {
  BenchResult r = Sample();
  EXPECT_DOUBLE_EQ(r.bytes_per_second(), 3.5e12);
  EXPECT_EQ(r.share(), 0);
  r.read_bandwidth = 4e12;
  EXPECT_DOUBLE_EQ(r.share(), 0.875);
}

TEST(BenchText, NamesTheShareOnlyWhereItIsKnown) {
  BenchResult r = Sample();
  EXPECT_TRUE(
      Has(BenchText(r), "prefill 3 x 512: 1000.0 tokens/s (min 900.0)"));
  EXPECT_TRUE(
      Has(BenchText(r), "decode  3 x 128: 3000.0 tokens/s (min 2900.0)"))
      << BenchText(r);
  EXPECT_FALSE(Has(BenchText(r), "%"));
  r.read_bandwidth = 4e12;
  EXPECT_TRUE(Has(BenchText(r), "87.5 % of the 4000.0 GB/s"));
}

TEST(BenchText, GivesTimeByKindForAStep) {
  BenchResult r = Sample();
  r.kinds = {{"linear_mma", 32, 800.0}};
  r.kind_steps = 16;
  EXPECT_TRUE(Has(BenchText(r), "50.0 us a step, 2 launches")) << BenchText(r);
  EXPECT_TRUE(Has(BenchMarkdown(r), "| linear_mma | 50.0 | 2 |"));
}

TEST(BenchJson, ReadsBackWithItsNumbers) {
  BenchResult r = Sample();
  r.read_bandwidth = 4e12;
  r.kinds = {{"gemm", 8, 100.0}};
  r.kind_steps = 4;
  const auto v = json::Parse(BenchJson(r));
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(v->Find("decode_ms_per_step")->Find("median")->as_double(), 1.0);
  EXPECT_EQ(v->Find("bytes_per_step")->Find("cache")->as_int(), 500'000'000);
  EXPECT_EQ(v->Find("share_of_read_bandwidth")->as_double(), 0.875);
  EXPECT_EQ(v->Find("kinds")->items()[0].Find("us_per_step")->as_double(), 25);
  EXPECT_EQ(json::Parse(BenchJson(Sample()))->Find("read_bandwidth"), nullptr);
}

}  // namespace
}  // namespace deepslice
