#include "compiler/convert_elements.h"

#include <algorithm>
#include <cstring>

#include "compiler/checkpoint/dequantize.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;

// FloatToBF16 and FloatToF16 without branches, so that loops vectorise.
struct ToBF16 {
  static constexpr uint32_t kOwnInfinity = 0x7f80;
  static uint32_t Bits(uint32_t f) {
    const uint32_t rounded = (f + 0x7fff + ((f >> 16) & 1)) >> 16;
    return (f & kMagnitude) > kInfinity ? (f >> 16) | 0x40 : rounded;
  }
};

struct ToF16 {
  static constexpr uint32_t kOwnInfinity = 0x7c00;
  static uint32_t Bits(uint32_t f) {
    const uint32_t magnitude = f & kMagnitude;
    // From 2^-14 on: fewer bits of mantissa, another bias.
    const uint32_t normal =
        (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
    // Below: the addition rounds to multiples of 2^-24, the last bit of 0.5.
    float small;
    std::memcpy(&small, &magnitude, 4);
    small += 0.5f;
    uint32_t subnormal;
    std::memcpy(&subnormal, &small, 4);
    subnormal -= 0x3f000000;
    uint32_t out = magnitude < 0x38800000 ? subnormal : normal;
    out = magnitude >= 0x477ff000 ? kOwnInfinity : out;  // 65520 and more
    out = magnitude > kInfinity ? 0x7e00 : out;
    return out | ((f >> 16) & 0x8000);
  }
};

template <typename To>
int64_t Narrow(const uint8_t* floats, int64_t count, uint8_t* out) {
  uint32_t infinities = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t f;
    std::memcpy(&f, floats + 4 * i, 4);
    const uint16_t bits = static_cast<uint16_t>(To::Bits(f));
    std::memcpy(out + 2 * i, &bits, 2);
    infinities += static_cast<uint32_t>((f & kMagnitude) < kInfinity) &
                  static_cast<uint32_t>((bits & 0x7fff) == To::kOwnInfinity);
  }
  return infinities;
}

int64_t FromFloats(const uint8_t* floats, int64_t count, DType to,
                   uint8_t* out) {
  switch (to) {
    case DType::kBF16:
      return Narrow<ToBF16>(floats, count, out);
    case DType::kF16:
      return Narrow<ToF16>(floats, count, out);
    default:
      DS_CHECK(to == DType::kF32);
      std::memcpy(out, floats, count * 4);
      return 0;
  }
}

}  // namespace

int64_t ConvertElements(DType from, const uint8_t* elements, int64_t count,
                        DType to, uint8_t* out) {
  constexpr int64_t kAtOnce = 1024;
  int64_t infinities = 0;
  float floats[kAtOnce];
  for (int64_t at = 0; at < count; at += kAtOnce) {
    const int64_t n = std::min(kAtOnce, count - at);
    const uint8_t* values = elements + at * DTypeSize(from);
    if (from != DType::kF32) {
      WidenToFloat(from, values, n, floats);
      values = reinterpret_cast<const uint8_t*>(floats);
    }
    infinities += FromFloats(values, n, to, out + at * DTypeSize(to));
  }
  return infinities;
}

}  // namespace deepslice
