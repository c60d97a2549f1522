#include "schema/base/dtype.h"

#include <cmath>

namespace deepslice {
namespace {

struct Row {
  const char* name;
  int size;
};
constexpr Row kRows[kNumDTypes] = {
    {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}, {"i8", 1},
    {"u8", 1},  {"i16", 2}, {"u16", 2},  {"i32", 4}, {"u32", 4},
    {"i64", 8}, {"u64", 8}, {"bool", 1}};

}  // namespace

absl::string_view DTypeName(DType t) { return kRows[static_cast<int>(t)].name; }

std::optional<DType> ParseDType(absl::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == kRows[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t DTypeSize(DType t) { return kRows[static_cast<int>(t)].size; }

float F16ToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f;
  const uint32_t mantissa = h & 0x3ffu;
  uint32_t bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    // Subnormal: mantissa * 2^-24, exact in float.
    float f = std::ldexp(static_cast<float>(mantissa), -24);
    std::memcpy(&bits, &f, 4);
    bits |= sign;
  }
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

uint16_t FloatToF16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  // 65520 is the midpoint between 65504 and the first power beyond.
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal or zero
    float positive;
    std::memcpy(&positive, &magnitude, 4);
    // Scaling by 2^24 is exact; nearbyint rounds to even.
    return sign | static_cast<uint16_t>(std::nearbyint(positive * 16777216.0f));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

}  // namespace deepslice
