// Products and sums of untrusted sizes: nullopt-like false on overflow.
#ifndef DEEPSLICE_SCHEMA_BASE_CHECKED_MATH_H_
#define DEEPSLICE_SCHEMA_BASE_CHECKED_MATH_H_

#include <cstdint>

namespace deepslice {

// *out = a * b; false (and *out unspecified) when it does not fit.
inline bool CheckedMul(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
inline bool CheckedMul(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
inline bool CheckedAdd(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}
inline bool CheckedAdd(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

inline constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline constexpr int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDiv(a, b) * b;
}

// Part `r` of `n` things over `t` owners is [PartBegin(n, t, r),
// PartBegin(n, t, r + 1)): the one partition rule of the product.
inline constexpr int64_t PartBegin(int64_t n, int64_t t, int64_t r) {
  return r * n / t;
}

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_CHECKED_MATH_H_
