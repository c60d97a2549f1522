// CPU kernel of Softcap: cap * tanh(x / cap).
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softcap_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/act-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void SoftcapPart(const float* x, float cap, float* y, int64_t n) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  const auto c = hn::Set(d, cap);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto u = hn::Div(LoadSome(d, x + i, n - i), c);
    StoreSome(d, hn::Mul(c, TanhFloat(d, u)), y + i, n - i);
  }
}

void Softcap(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::Softcap::x];
  const auto cap = static_cast<float>(call.attrs[attr::Softcap::cap].f);
  call.pool->ParallelFor(
      x.rows * x.cols, 8192, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        SoftcapPart(x.f32() + begin, cap, call.out + begin, end - begin);
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Softcap);
void CpuSoftcap(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(Softcap)(call); }
}  // namespace deepslice
#endif
