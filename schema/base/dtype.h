// Element types: the tags written into plans, their names and sizes, and exact
// conversions between the 16-bit types and float.
#ifndef DEEPSLICE_SCHEMA_BASE_DTYPE_H_
#define DEEPSLICE_SCHEMA_BASE_DTYPE_H_

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/string_view.h"

namespace deepslice {

// Values are written into plan files and keep their meaning.
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kF64 = 3,
  kI8 = 4,
  kU8 = 5,
  kI16 = 6,
  kU16 = 7,
  kI32 = 8,
  kU32 = 9,
  kI64 = 10,
  kU64 = 11,
  kBool = 12,
};
inline constexpr int kNumDTypes = 13;

// "f32", "bf16", "i8": the spelling in IR text.
absl::string_view DTypeName(DType t);
// The inverse of DTypeName.
std::optional<DType> ParseDType(absl::string_view name);
// Bytes of one element.
int64_t DTypeSize(DType t);
inline bool IsFloat(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 ||
         t == DType::kF64;
}

inline float BF16ToFloat(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
// Round to nearest even; NaN stays NaN (quiet).
inline uint16_t FloatToBF16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
float F16ToFloat(uint16_t h);
// Round to nearest even; beyond 65504 becomes infinity.
uint16_t FloatToF16(float f);

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_DTYPE_H_
