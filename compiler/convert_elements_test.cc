#include "compiler/convert_elements.h"

#include <cmath>
#include <vector>

#include "compiler/checkpoint/dequantize.h"
#include "gtest/gtest.h"

namespace deepslice {
namespace {

// Every sign, exponent and upper mantissa, with the lower bits that matter for
// rounding.
std::vector<uint32_t> ManyFloats() {
  std::vector<uint32_t> out;
  for (uint32_t high = 0; high < 1 << 16; ++high) {
    for (const uint32_t low :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x2000u, 0x3000u,
          0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu}) {
      out.push_back(high << 16 | low);
    }
  }
  return out;
}

float FromBits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

// One byte off, so that nothing is aligned.
std::vector<uint8_t> Shifted(const void* data, size_t bytes) {
  std::vector<uint8_t> out(bytes + 1);
  std::memcpy(out.data() + 1, data, bytes);
  return out;
}

TEST(ConvertElements, RoundsEveryFloatAsOneByOne) {
  const std::vector<uint32_t> floats = ManyFloats();
  const int64_t n = floats.size();
  const std::vector<uint8_t> in = Shifted(floats.data(), n * 4);
  for (const DType to : {DType::kBF16, DType::kF16}) {
    std::vector<uint8_t> out(2 * n + 1);
    const int64_t infinities =
        ConvertElements(DType::kF32, in.data() + 1, n, to, out.data() + 1);
    int64_t want_infinities = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float f = FromBits(floats[i]);
      const uint16_t want = to == DType::kF16 ? FloatToF16(f) : FloatToBF16(f);
      uint16_t got;
      std::memcpy(&got, out.data() + 1 + 2 * i, 2);
      ASSERT_EQ(got, want) << DTypeName(to) << " of bits " << floats[i];
      const float back = to == DType::kF16 ? F16ToFloat(got) : BF16ToFloat(got);
      if (std::isinf(back) && std::isfinite(f)) ++want_infinities;
    }
    EXPECT_EQ(infinities, want_infinities) << DTypeName(to);
    EXPECT_GT(infinities, 0);
  }
}

TEST(ConvertElements, WidensAndRoundsOtherTypes) {
  std::vector<uint16_t> halves(5000);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = i * 13;
  const int64_t n = halves.size();
  const std::vector<uint8_t> in = Shifted(halves.data(), n * 2);
  for (const DType from : {DType::kF16, DType::kBF16}) {
    std::vector<float> wide(n);
    WidenToFloat(from, in.data() + 1, n, wide.data());
    std::vector<uint8_t> out(4 * n);
    EXPECT_EQ(ConvertElements(from, in.data() + 1, n, DType::kF32, out.data()),
              0);
    EXPECT_EQ(std::memcmp(out.data(), wide.data(), 4 * n), 0);
    ConvertElements(from, in.data() + 1, n, DType::kF16, out.data());
    for (int64_t i = 0; i < n; ++i) {
      uint16_t got;
      std::memcpy(&got, out.data() + 2 * i, 2);
      ASSERT_EQ(got, FloatToF16(wide[i])) << DTypeName(from) << " " << i;
    }
  }
  const double d[] = {1.0000000001, -70000, 1e300};
  uint8_t out[6];
  EXPECT_EQ(ConvertElements(DType::kF64, reinterpret_cast<const uint8_t*>(d), 3,
                            DType::kF16, out),
            1);  // 1e300 is infinite as a float already
}

}  // namespace
}  // namespace deepslice
