#include "compiler/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace deepslice {
namespace {

TEST(ExactSum, IsTheSameInAnyOrderAndGrouping) {
  std::mt19937_64 random(7);
  std::vector<double> numbers;
  for (int i = 0; i < 500; ++i) {
    const int exponent = static_cast<int>(random() % 600) - 300;
    numbers.push_back(
        std::ldexp(static_cast<double>(random() >> 11), exponent));
  }
  ExactSum straight;
  for (const double v : numbers) straight.Add(v);
  std::shuffle(numbers.begin(), numbers.end(), random);
  ExactSum parts[3];
  for (size_t i = 0; i < numbers.size(); ++i) parts[i % 3].Add(numbers[i]);
  parts[2].Merge(parts[0]);
  parts[2].Merge(parts[1]);
  EXPECT_EQ(straight.Value(), parts[2].Value());
}

TEST(ExactSum, LosesNothingBetweenSizes) {
  ExactSum sum;
  sum.Add(0x1p60);
  for (int i = 0; i < 256; ++i) sum.Add(0x1p0);
  EXPECT_EQ(sum.Value(), 0x1p60 + 256);
  ExactSum zero;
  zero.Add(0);
  EXPECT_EQ(zero.Value(), 0);
}

TEST(ExactSum, HoldsTheEndsOfTheRange) {
  const double least = std::numeric_limits<double>::denorm_min();
  ExactSum small;
  small.Add(least);
  small.Add(2 * least);
  EXPECT_EQ(small.Value(), 3 * least);
  ExactSum large;
  large.Add(std::numeric_limits<double>::max());
  large.Add(least);
  EXPECT_EQ(large.Value(), std::numeric_limits<double>::max());
}

}  // namespace
}  // namespace deepslice
