// CPU kernel of Activation: y = f(x), elementwise.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/act-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

template <Act kAct>
void ActivationPart(const float* x, float* y, int64_t n) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t i = 0; i < n; i += lanes) {
    StoreSome(d, ApplyAct<kAct>(d, LoadSome(d, x + i, n - i)), y + i, n - i);
  }
}

void Activation(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::Activation::x];
  const Act kind = static_cast<Act>(call.attrs[attr::Activation::kind].i);
  // About 4 us a grain: more than it costs to wake a thread.
  call.pool->ParallelFor(
      x.rows * x.cols, 8192, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithAct(kind, [&]<Act kAct>() HWY_ATTR {
          ActivationPart<kAct>(x.f32() + begin, call.out + begin, end - begin);
        });
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Activation);
void CpuActivation(const CpuCall& call) {
  HWY_DYNAMIC_DISPATCH(Activation)(call);
}
}  // namespace deepslice
#endif
