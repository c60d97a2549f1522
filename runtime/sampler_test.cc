#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/engine.h"
#include "runtime/philox.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

std::vector<int32_t> scratch;

int32_t Sample(const std::vector<float>& logits, const SamplingParams& params,
               int64_t position = 0) {
  auto id = SampleToken(logits.data(), static_cast<int64_t>(logits.size()),
                        params, position, &scratch);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return id.value_or(-1);
}

// How often each id comes over `n` positions.
std::map<int32_t, int> Counts(const std::vector<float>& logits,
                              const SamplingParams& params, int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[Sample(logits, params, i)];
  return counts;
}

// Pearson's statistic of counts against probabilities.
double ChiSquare(const std::map<int32_t, int>& counts,
                 const std::map<int32_t, double>& probabilities, int n) {
  double sum = 0;
  for (const auto& [id, p] : probabilities) {
    const auto at = counts.find(id);
    const double seen = at == counts.end() ? 0 : at->second;
    sum += (seen - n * p) * (seen - n * p) / (n * p);
  }
  return sum;
}

std::vector<float> Log(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(std::log(p));
  return logits;
}

TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                     0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(Philox4x32({f, f, f, f}, {f, f}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                     0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420,
                                     0x24126ea1}));
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheLargestLogit) {
  EXPECT_EQ(Sample({0.5f, 2.0f, -1.0f, 2.0f, 1.0f}, {}), 1);
  EXPECT_EQ(Sample({-3.0f, -3.0f, -3.0f}, {}), 0);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Sample({-inf, -inf, -7.0f}, {}), 2);
}

TEST(Sampler, RefusesLogitsWithoutADistribution) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const bool greedy : {true, false}) {
    const SamplingParams params = {.greedy = greedy};
    const std::vector<float> with_nan = {1.0f, 2.0f, nan, 3.0f, nan};
    DS_EXPECT_ERROR(SampleToken(with_nan.data(), 5, params, 0, &scratch),
                    kInternal, "NaN, first at id 2 of 5");
    const std::vector<float> nan_first = {nan, 2.0f};
    DS_EXPECT_ERROR(SampleToken(nan_first.data(), 2, params, 0, &scratch),
                    kInternal, "NaN, first at id 0");
    const std::vector<float> with_inf = {1.0f, inf};
    DS_EXPECT_ERROR(SampleToken(with_inf.data(), 2, params, 0, &scratch),
                    kInternal, "inf at id 1");
    const std::vector<float> nothing = {-inf, -inf};
    DS_EXPECT_ERROR(SampleToken(nothing.data(), 2, params, 0, &scratch),
                    kInternal, "-inf");
  }
}

TEST(Sampler, FollowsTheSoftmaxAtTheTemperature) {
  const std::vector<double> p = {0.05, 0.3, 0.15, 0.4, 0.1};
  const std::vector<float> logits = Log(p);
  const int n = 20000;
  // 18.5: the 99.9 % point of chi-square with four degrees of freedom. The seed
  // is fixed, so the test always ends the same way.
  SamplingParams params = {.greedy = false, .seed = 1234};
  EXPECT_LT(
      ChiSquare(Counts(logits, params, n),
                {{0, p[0]}, {1, p[1]}, {2, p[2]}, {3, p[3]}, {4, p[4]}}, n),
      18.5);
  params.temperature = 0.5f;  // squares the probabilities
  double total = 0;
  for (double x : p) total += x * x;
  std::map<int32_t, double> squared;
  for (int i = 0; i < 5; ++i) squared[i] = p[i] * p[i] / total;
  EXPECT_LT(ChiSquare(Counts(logits, params, n), squared, n), 18.5);
  // And the bound has teeth: another temperature's counts break it.
  params.temperature = 0.6f;
  EXPECT_GT(ChiSquare(Counts(logits, params, n), squared, n), 18.5);
}

std::set<int32_t> Support(const std::vector<float>& logits,
                          const SamplingParams& params) {
  std::set<int32_t> ids;
  for (const auto& [id, n] : Counts(logits, params, 4000)) ids.insert(id);
  return ids;
}

TEST(Sampler, TopKKeepsExactlyTheLikeliestK) {
  const std::vector<float> logits = Log({0.1, 0.2, 0.15, 0.25, 0.05, 0.25});
  SamplingParams params = {.greedy = false, .seed = 7};
  params.top_k = 1;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{3}));
  params.top_k = 2;  // a tie: both
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{3, 5}));
  params.top_k = 4;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1, 2, 3, 5}));
  params.top_k = 600;  // beyond the vocabulary: off
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{0, 1, 2, 3, 4, 5}));
  // The rest is renormalised.
  params.top_k = 3;
  const int n = 20000;
  EXPECT_LT(ChiSquare(Counts(logits, params, n),
                      {{1, 0.2 / 0.7}, {3, 0.25 / 0.7}, {5, 0.25 / 0.7}}, n),
            13.8);  // 99.9 % at two degrees of freedom
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesP) {
  const std::vector<float> logits = Log({0.1, 0.4, 0.05, 0.3, 0.15});
  SamplingParams params = {.greedy = false, .seed = 7};
  params.top_p = 0.3f;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1}));
  params.top_p = 0.6f;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1, 3}));
  params.top_p = 0.8f;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1, 3, 4}));
  params.top_p = 0.999f;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{0, 1, 2, 3, 4}));
  params.top_p = 1e-9f;  // never empty
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1}));
}

TEST(Sampler, TopPIsAShareOfWhatTopKLeft) {
  const std::vector<float> logits = Log({0.1, 0.4, 0.05, 0.3, 0.15});
  // Of 0.4 and 0.3, 0.4 alone is 57 %.
  SamplingParams params = {.greedy = false, .top_k = 2, .top_p = 0.55f};
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1}));
  params.top_k = 0;
  EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1, 3}));
}

TEST(Sampler, NeverTakesAMaskedToken) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {-inf, 0.5f, -inf, 0.25f, -inf};
  for (const SamplingParams& params :
       {SamplingParams{.greedy = false},
        SamplingParams{.greedy = false, .top_k = 4},
        SamplingParams{.greedy = false, .top_p = 0.9999f}}) {
    EXPECT_EQ(Support(logits, params), (std::set<int32_t>{1, 3}));
  }
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits(131, 0.0f);
  SamplingParams params = {.greedy = false, .seed = 5};
  std::vector<int32_t> first, again, other;
  for (int i = 0; i < 20; ++i) first.push_back(Sample(logits, params, i));
  for (int i = 20; i-- > 0;) {
    again.insert(again.begin(), Sample(logits, params, i));
  }
  params.seed = 6;
  for (int i = 0; i < 20; ++i) other.push_back(Sample(logits, params, i));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

}  // namespace
}  // namespace deepslice
