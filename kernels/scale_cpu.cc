// CPU kernel of Scale: factor * x.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scale_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void ScalePart(const float* x, float factor, float* y, int64_t n) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  const auto f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += lanes) {
    StoreSome(d, hn::Mul(LoadSome(d, x + i, n - i), f), y + i, n - i);
  }
}

void Scale(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::Scale::x];
  const auto factor = static_cast<float>(call.attrs[attr::Scale::factor].f);
  call.pool->ParallelFor(
      x.rows * x.cols, 16384, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        ScalePart(x.f32() + begin, factor, call.out + begin, end - begin);
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Scale);
void CpuScale(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(Scale)(call); }
}  // namespace deepslice
#endif
