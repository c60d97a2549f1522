// Vector loads and stores of the float encodings and exp, once per Highway
// target. Included by *_cpu.cc after hwy/foreach_target.h.
#if defined(DEEPSLICE_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_SIMD_INL_H_
#undef DEEPSLICE_KERNELS_SIMD_INL_H_
#else
#define DEEPSLICE_KERNELS_SIMD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "schema/base/check.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

inline int64_t FloatLanes() {
  return static_cast<int64_t>(hn::Lanes(Floats()));
}

// ---- loads: as many elements as d has lanes, converted exactly -------------

template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const hwy::float16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloat(D d, const hwy::bfloat16_t* p) {
  const hn::Rebind<uint16_t, D> du16;
  const hn::Rebind<uint32_t, D> du32;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du32, bits)));
}

// The first n elements (n > 0), zeros in the lanes beyond. Reads no further.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadSome(D d, const T* p, int64_t n) {
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return LoadFloat(d, p);
  HWY_ALIGN T part[hn::MaxLanes(D())] = {};
  std::memcpy(static_cast<void*>(part), p, n * sizeof(T));
  return LoadFloat(d, part);
}

// ---- stores: rounded to nearest even ---------------------------------------

template <class D>
HWY_INLINE void StoreFloat(D d, hn::Vec<D> v, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void StoreFloat(D d, hn::Vec<D> v, hwy::float16_t* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || \
    HWY_TARGET == HWY_AVX3_DL
  const hn::Rebind<hwy::float16_t, D> df16;
  hn::StoreU(hn::DemoteTo(df16, v), df16, p);
#else
  // Not DemoteTo: where it is emulated, it truncates.
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    const uint16_t half = FloatToF16(lanes[i]);
    std::memcpy(static_cast<void*>(p + i), &half, 2);
  }
#endif
}
template <class D>
HWY_INLINE void StoreFloat(D d, hn::Vec<D> v, hwy::bfloat16_t* p) {
  // Not DemoteTo: it truncates.
  const hn::Rebind<uint32_t, D> du32;
  const hn::Rebind<int32_t, D> di32;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::BitCast(du32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7fff)));
  // The carry would turn some NaNs into zeros.
  const auto quiet = hn::Or(bits, hn::Set(du32, 0x400000));
  const auto is_nan = hn::RebindMask(du32, hn::IsNaN(v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, high)), du16,
             reinterpret_cast<uint16_t*>(p));
}

// Stores the first n lanes (n > 0), nothing beyond.
template <class D, typename T>
HWY_INLINE void StoreSome(D d, hn::Vec<D> v, T* p, int64_t n) {
  if (n >= static_cast<int64_t>(hn::Lanes(d))) {
    StoreFloat(d, v, p);
    return;
  }
  HWY_ALIGN T part[hn::MaxLanes(D())];
  StoreFloat(d, v, part);
  std::memcpy(static_cast<void*>(p), part, n * sizeof(T));
}

// Calls f with `data` as a pointer to the element type of a float encoding.
template <typename F>
HWY_INLINE void WithElementType(Encoding encoding, const void* data, F f) {
  switch (encoding) {
    case Encoding::kF32:
      return f(static_cast<const float*>(data));
    case Encoding::kF16:
      return f(static_cast<const hwy::float16_t*>(data));
    case Encoding::kBF16:
      return f(static_cast<const hwy::bfloat16_t*>(data));
    default:
      DS_CHECK(false && "CpuCheck allows f32, f16 and bf16 here");
  }
}

// ---- mathematics -----------------------------------------------------------

// e^x within 2 units in the last place for x <= 88, e^88 above, 0 below -87.3.
// Not hwy's Exp: it turns NaN into 0, and a broken score must stay visible.
template <class D>
HWY_INLINE hn::Vec<D> ExpFloat(D d, hn::Vec<D> x) {
  const hn::Rebind<int32_t, D> di;
  const auto too_low = hn::Lt(x, hn::Set(d, -87.3f));
  // In this order x86 gives NaN for NaN.
  x = hn::Min(hn::Set(d, 88.0f), x);
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  // ln 2 in two parts, the first with few bits so that n times it is exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // (e^r - 1 - r) / r^2, minimax on |r| <= ln(2) / 2: 3.1e-9.
  auto p = hn::MulAdd(hn::Set(d, 1.3814540579915047e-3f), r,
                      hn::Set(d, 8.36874544620514e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.04166838899254799f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666652113199234f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999999403953552f));
  const auto y = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const auto power =
      hn::BitCast(d, hn::Add(exponent, hn::BitCast(di, hn::Set(d, 1.0f))));
  return hn::IfThenElse(too_low, hn::Zero(d), hn::Mul(y, power));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_SIMD_INL_H_
