// Rotation of one head by precomputed cosines and sines, once per Highway
// target; Rope and QkvAttention share it.
#if defined(DEEPSLICE_KERNELS_ROPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_ROPE_INL_H_
#undef DEEPSLICE_KERNELS_ROPE_INL_H_
#else
#define DEEPSLICE_KERNELS_ROPE_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"
#include "kernels/simd-inl.h"
#include "schema/ops.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// cosines[i], sines[i] of position * freqs[i], times scale, for i < half. The
// angle is rounded to float before the functions, as the published models do.
// libm and not hwy's Sin: that one is bounded to 39000 radians, less than a
// long context; and once per token it costs little.
template <typename T>
void RopeAngles(int32_t position, const T* freqs, int64_t half, double scale,
                float* cosines, float* sines) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  const auto p = hn::Set(d, static_cast<float>(position));
  for (int64_t i = 0; i < half; i += lanes) {
    const int64_t n = half - i;
    StoreSome(d, hn::Mul(p, LoadSome(d, freqs + i, n)), sines + i, n);
  }
  const float factor = static_cast<float>(scale);
  for (int64_t i = 0; i < half; ++i) {
    const float angle = sines[i];
    cosines[i] = std::cos(angle) * factor;
    sines[i] = std::sin(angle) * factor;
  }
}

// to = the first 2 * half elements of `from` rotated, the others copied. `to`
// may be `from`.
inline void RotateHead(const float* from, const float* cosines,
                       const float* sines, int64_t half, int64_t head_dim,
                       RopeStyle style, float* to) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  const bool pairs = style == RopeStyle::kInterleaved;
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    FloatVec x, y;
    if (pairs) {
      hn::LoadInterleaved2(d, from + 2 * i, x, y);
    } else {
      x = hn::LoadU(d, from + i);
      y = hn::LoadU(d, from + i + half);
    }
    const auto c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, sines + i);
    const auto a = hn::NegMulAdd(y, s, hn::Mul(x, c));
    const auto b = hn::MulAdd(y, c, hn::Mul(x, s));
    if (pairs) {
      hn::StoreInterleaved2(a, b, d, to + 2 * i);
    } else {
      hn::StoreU(a, d, to + i);
      hn::StoreU(b, d, to + i + half);
    }
  }
  for (; i < half; ++i) {
    const int64_t first = pairs ? 2 * i : i;
    const int64_t second = pairs ? 2 * i + 1 : i + half;
    const float x = from[first], y = from[second];
    to[first] = x * cosines[i] - y * sines[i];
    to[second] = x * sines[i] + y * cosines[i];
  }
  if (to != from) {
    for (int64_t c = 2 * half; c < head_dim; ++c) to[c] = from[c];
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_ROPE_INL_H_
