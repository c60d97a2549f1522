// Row sums of the norms, once per Highway target.
#if defined(DEEPSLICE_KERNELS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_NORM_INL_H_
#undef DEEPSLICE_KERNELS_NORM_INL_H_
#else
#define DEEPSLICE_KERNELS_NORM_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sum over c of f(x[c]) in doubles: the sums are a small part of a norm's time,
// and wide rows lose digits in float. f maps a vector and a scalar alike.
template <typename Vector, typename Scalar>
HWY_INLINE double RowSum(const float* x, int64_t n, Vector vector,
                         Scalar scalar) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = hn::Zero(d), e = hn::Zero(d), g = hn::Zero(d);
  int64_t c = 0;
  const auto load = [&](int64_t i) HWY_ATTR {
    return vector(hn::PromoteTo(d, hn::LoadU(df, x + i)));
  };
  for (; c + 4 * lanes <= n; c += 4 * lanes) {
    a = hn::Add(a, load(c));
    b = hn::Add(b, load(c + lanes));
    e = hn::Add(e, load(c + 2 * lanes));
    g = hn::Add(g, load(c + 3 * lanes));
  }
  for (; c + lanes <= n; c += lanes) a = hn::Add(a, load(c));
  const auto all = hn::Add(hn::Add(a, b), hn::Add(e, g));
  double sum = hn::GetLane(hn::SumOfLanes(d, all));
  for (; c < n; ++c) sum += scalar(static_cast<double>(x[c]));
  return sum;
}

inline double Sum(const float* x, int64_t n) {
  return RowSum(
      x, n, [](auto v) HWY_ATTR { return v; }, [](double v) { return v; });
}

// Sum of (x[c] - mean)^2.
inline double SumOfSquares(const float* x, double mean, int64_t n) {
  const hn::ScalableTag<double> d;
  const auto m = hn::Set(d, mean);
  return RowSum(
      x, n,
      [m](auto v) HWY_ATTR {
        const auto centred = hn::Sub(v, m);
        return hn::Mul(centred, centred);
      },
      [mean](double v) { return (v - mean) * (v - mean); });
}

// y = (x - mean) * inverse * scale [+ bias]; bias may be null.
template <typename S, typename B>
void NormalizeRow(const float* x, double mean, double inverse, const S* scale,
                  const B* bias, float* y, int64_t cols) {
  const Floats d;
  const auto centre = hn::Set(d, static_cast<float>(mean));
  const auto factor = hn::Set(d, static_cast<float>(inverse));
  const int64_t lanes = FloatLanes();
  for (int64_t c = 0; c < cols; c += lanes) {
    const int64_t n = cols - c;
    const auto normal = hn::Mul(hn::Sub(LoadSome(d, x + c, n), centre), factor);
    auto v = hn::Mul(normal, LoadSome(d, scale + c, n));
    if (bias != nullptr) v = hn::Add(v, LoadSome(d, bias + c, n));
    StoreSome(d, v, y + c, n);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_NORM_INL_H_
