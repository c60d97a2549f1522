// CPU kernel of HeadLinear: each head by its own block of weights.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/head_linear_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// y[o] = sum over i of x[i] * w[o, i].
template <typename T>
void MultiplyRows(const float* x, const T* w, int64_t from, int64_t to,
                  float* y) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t o = 0; o < to; ++o) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < from; i += lanes) {
      const int64_t n = from - i;
      sum = hn::MulAdd(LoadSome(d, x + i, n), LoadSome(d, w + o * from + i, n),
                       sum);
    }
    y[o] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// y[o] = sum over i of x[i] * w[i, o].
template <typename T>
void AddScaledRows(const float* x, const T* w, int64_t from, int64_t to,
                   float* y) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t o = 0; o < to; o += lanes) {
    const int64_t n = to - o;
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < from; ++i) {
      sum = hn::MulAdd(hn::Set(d, x[i]), LoadSome(d, w + i * to + o, n), sum);
    }
    StoreSome(d, sum, y + o, n);
  }
}

void HeadLinear(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::HeadLinear::x];
  const CpuOperand& w = call.in[operand::HeadLinear::w];
  const int64_t heads = call.attrs[attr::HeadLinear::heads].i;
  const bool transposed = call.attrs[attr::HeadLinear::transposed].i != 0;
  if (heads == 0) return;
  const int64_t block = w.rows / heads;
  const int64_t from = transposed ? block : w.cols;
  const int64_t to = transposed ? w.cols : block;
  // Heads outermost: a head's block serves all tokens while it is in the cache.
  call.pool->ParallelFor(
      x.rows * heads, 8192 / (from * to + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(w.encoding, w.data, [&](auto* data) HWY_ATTR {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t h = unit / x.rows, t = unit % x.rows;
            const float* in = x.f32() + (t * heads + h) * from;
            float* out = call.out + (t * heads + h) * to;
            const auto* own = data + h * from * to;
            if (transposed) {
              AddScaledRows(in, own, from, to, out);
            } else {
              MultiplyRows(in, own, from, to, out);
            }
          }
        });
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(HeadLinear);
void CpuHeadLinear(const CpuCall& call) {
  HWY_DYNAMIC_DISPATCH(HeadLinear)(call);
}
}  // namespace deepslice
#endif
