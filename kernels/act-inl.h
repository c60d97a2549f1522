// The functions of Act on vectors, once per Highway target.
#if defined(DEEPSLICE_KERNELS_ACT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_ACT_INL_H_
#undef DEEPSLICE_KERNELS_ACT_INL_H_
#else
#define DEEPSLICE_KERNELS_ACT_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/simd-inl.h"
#include "schema/ops.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// x * sigmoid(k * x).
template <class D>
HWY_INLINE hn::Vec<D> Swish(D d, hn::Vec<D> x, hn::Vec<D> kx) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(x, hn::Add(one, ExpFloat(d, hn::Neg(kx))));
}

// x * Phi(x), Phi the normal distribution: the erf form. Relative error about
// 1e-6 on both sides, so the far negative tail stays right as well.
template <class D>
HWY_INLINE hn::Vec<D> GeluErf(D d, hn::Vec<D> x) {
  // Beyond 14 the tail is 0 in float; the bound keeps infinity from 0 * inf.
  const auto z = hn::Min(hn::Abs(x), hn::Set(d, 14.0f));
  // 1 - Phi(z) = e^(-z^2 / 2) * t * P(t), t = 1 / (1 + 0.275 z); P is minimax
  // in relative error over [0, 13.5]: 3.8e-8.
  const auto one = hn::Set(d, 1.0f);
  const auto t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.275f), z, one));
  auto p = hn::MulAdd(hn::Set(d, 0.026069732859255578f), t,
                      hn::Set(d, -0.10512755973648391f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1182915914876248f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.02112250255036286f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.07802228818725365f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.08329712823576269f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.10105197760725501f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.10981625510081339f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.10970110754587854f));
  const auto exponent = hn::Mul(hn::Mul(z, z), hn::Set(d, -0.5f));
  const auto tail = hn::Mul(hn::Mul(p, t), ExpFloat(d, exponent));
  const auto cut = hn::Mul(z, tail);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(cut), hn::Sub(x, cut));
}

// Near 0 an odd polynomial (1.3e-7 relative), elsewhere 1 - 2 / (e^(2 |x|) +
// 1).
template <class D>
HWY_INLINE hn::Vec<D> TanhFloat(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto z = hn::Abs(x);
  const auto x2 = hn::Mul(x, x);
  auto p = hn::MulAdd(hn::Set(d, -5.70498872745e-3f), x2,
                      hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(p, x2, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(p, x2, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(p, x2, hn::Set(d, -3.33332819422e-1f));
  const auto near = hn::MulAdd(hn::Mul(p, x2), x, x);
  const auto grown = hn::Add(ExpFloat(d, hn::Add(z, z)), one);
  const auto far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), grown));
  return hn::IfThenElse(hn::Lt(z, hn::Set(d, 0.625f)), near,
                        hn::CopySign(far, x));
}

template <Act kAct, class D>
HWY_INLINE hn::Vec<D> ApplyAct(D d, hn::Vec<D> x) {
  if constexpr (kAct == Act::kSilu) {
    return Swish(d, x, x);
  } else if constexpr (kAct == Act::kGelu) {
    return GeluErf(d, x);
  } else if constexpr (kAct == Act::kGeluTanh) {
    // (1 + tanh(u)) / 2 = sigmoid(2 u); 1.595... = 2 sqrt(2 / pi).
    const auto x2 = hn::Mul(x, x);
    const auto one = hn::Set(d, 1.0f);
    const auto cubic = hn::MulAdd(x2, hn::Set(d, 0.044715f), one);
    return Swish(d, x,
                 hn::Mul(hn::Mul(x, hn::Set(d, 1.5957691216057308f)), cubic));
  } else if constexpr (kAct == Act::kRelu) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  } else if constexpr (kAct == Act::kTanh) {
    return TanhFloat(d, x);
  } else if constexpr (kAct == Act::kRelu2) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, x));
  } else {
    static_assert(kAct == Act::kQuickGelu);
    return Swish(d, x, hn::Mul(x, hn::Set(d, 1.702f)));
  }
}

// Calls f.template operator()<kind>().
template <typename F>
HWY_INLINE void WithAct(Act kind, F f) {
  switch (kind) {
    case Act::kSilu:
      return f.template operator()<Act::kSilu>();
    case Act::kGelu:
      return f.template operator()<Act::kGelu>();
    case Act::kGeluTanh:
      return f.template operator()<Act::kGeluTanh>();
    case Act::kRelu:
      return f.template operator()<Act::kRelu>();
    case Act::kQuickGelu:
      return f.template operator()<Act::kQuickGelu>();
    case Act::kTanh:
      return f.template operator()<Act::kTanh>();
    case Act::kRelu2:
      return f.template operator()<Act::kRelu2>();
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_ACT_INL_H_
