// CPU kernel of GatedAct: f(gate) * up, gate and up columns interleaved.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gated_activation_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/act-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

template <Act kAct>
HWY_INLINE FloatVec GatedVector(const float* x) {
  const Floats d;
  FloatVec gate, up;
  hn::LoadInterleaved2(d, x, gate, up);
  return hn::Mul(ApplyAct<kAct>(d, gate), up);
}

// y[i] for i < n from x[2i], x[2i + 1]. Rows need no care: they are contiguous.
template <Act kAct>
void GatedPart(const float* x, float* y, int64_t n) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    StoreFloat(d, GatedVector<kAct>(x + 2 * i), y + i);
  }
  if (i == n) return;
  HWY_ALIGN float rest[2 * hn::MaxLanes(Floats())] = {};
  std::memcpy(rest, x + 2 * i, 2 * (n - i) * sizeof(float));
  StoreSome(d, GatedVector<kAct>(rest), y + i, n - i);
}

void GatedAct(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::GatedAct::x];
  const Act kind = static_cast<Act>(call.attrs[attr::GatedAct::kind].i);
  call.pool->ParallelFor(x.rows * (x.cols / 2), 4096,
                         [&](int64_t begin, int64_t end, int) HWY_ATTR {
                           WithAct(kind, [&]<Act kAct>() HWY_ATTR {
                             GatedPart<kAct>(x.f32() + 2 * begin,
                                             call.out + begin, end - begin);
                           });
                         });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(GatedAct);
void CpuGatedAct(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(GatedAct)(call); }
}  // namespace deepslice
#endif
