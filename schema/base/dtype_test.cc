#include "schema/base/dtype.h"

#include <cmath>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(DType, EveryHalfSurvivesARoundTrip) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = F16ToFloat(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(f))));
    } else {
      ASSERT_EQ(FloatToF16(f), h) << h;
    }
    const float b = BF16ToFloat(h);
    if (!std::isnan(b)) {
      ASSERT_EQ(FloatToBF16(b), h) << h;
    }
  }
}

TEST(DType, AgreesWithTheCompilersHalf) {
  // _Float16 is a second implementation of the same rounding.
  uint32_t bits = 1;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    float f;
    std::memcpy(&f, &bits, 4);
    if (std::isnan(f)) continue;
    const _Float16 expected = static_cast<_Float16>(f);
    uint16_t e;
    std::memcpy(&e, &expected, 2);
    ASSERT_EQ(FloatToF16(f), e) << f;
  }
}

TEST(DType, RoundsToNearestEvenAndOverflows) {
  EXPECT_EQ(FloatToF16(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToF16(65519.9f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToBF16(1.00390625f), 0x3f80);  // tie to even
  EXPECT_EQ(FloatToBF16(1.01171875f), 0x3f82);
}

TEST(DType, NamesParseBack) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(DTypeName(t)), t);
  }
  EXPECT_FALSE(ParseDType("f31").has_value());
}

}  // namespace
}  // namespace deepslice
