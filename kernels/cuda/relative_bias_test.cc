#include "kernels/cuda/relative_bias.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

// The rule of relative_bias.cuh, of the text's numbers.
int64_t BucketBy(const std::vector<int64_t>& numbers, bool both,
                 int64_t relative) {
  const int64_t buckets = numbers[0], near = numbers[1];
  const int64_t distance =
      both && relative > 0 ? relative : std::max<int64_t>(-relative, 0);
  int64_t bucket = std::min(distance, near - 1);
  for (size_t i = 2; i < numbers.size(); ++i) bucket += distance >= numbers[i];
  return both && relative > 0 ? bucket + buckets / 2 : bucket;
}

// The numbers of a text: buckets, near ones, where further ones begin.
std::vector<int64_t> NumbersOf(absl::string_view text) {
  EXPECT_TRUE(absl::ConsumePrefix(&text, "RelativeBias<bf16, ")) << text;
  EXPECT_TRUE(absl::ConsumeSuffix(&text, ">")) << text;
  std::vector<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ", ")) {
    int64_t n;
    if (absl::SimpleAtoi(part, &n)) numbers.push_back(n);
  }
  return numbers;
}

TEST(RelativeBiasArg, NamesWhereBucketsBegin) {
  EXPECT_EQ(RelativeBiasArg({DType::kF32, 8, 20}, true),
            "RelativeBias<float, 8, true, 3, 7>");
}

TEST(RelativeBiasArg, GivesTheBucketsOfTheRule) {
  for (const bool both : {false, true}) {
    for (const int64_t buckets : {2, 4, 5, 7, 8, 10, 32, 33, 64, 100}) {
      for (const int64_t most : {3, 5, 20, 32, 100, 128, 129, 1000, 4096}) {
        if (!AreRelativeBuckets(buckets, most, both)) continue;
        const std::optional<std::string> text =
            RelativeBiasArg({DType::kBF16, buckets, most}, both);
        ASSERT_TRUE(text.has_value()) << buckets << " " << most;
        const std::vector<int64_t> numbers = NumbersOf(*text);
        for (int64_t d = -most - 50; d <= most + 50; ++d) {
          // Distances from `most` on share a bucket.
          const int64_t clipped = std::clamp(d, -most, most);
          ASSERT_EQ(BucketBy(numbers, both, d),
                    RelativeBucket(clipped, buckets, most, both))
              << *text << " " << d;
        }
      }
    }
  }
}

TEST(RelativeBiasArg, RefusesMoreThanAKernelComparesWith) {
  EXPECT_FALSE(RelativeBiasArg({DType::kF32, 1000, 4096}, false).has_value());
}

}  // namespace
}  // namespace deepslice
