// CPU kernel of Mul: x * y.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mul_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void MulPart(const float* x, const float* y, float* z, int64_t n) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t i = 0; i < n; i += lanes) {
    const auto product =
        hn::Mul(LoadSome(d, x + i, n - i), LoadSome(d, y + i, n - i));
    StoreSome(d, product, z + i, n - i);
  }
}

void Mul(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::Mul::x];
  const CpuOperand& y = call.in[operand::Mul::y];
  call.pool->ParallelFor(x.rows * x.cols, 16384,
                         [&](int64_t begin, int64_t end, int) HWY_ATTR {
                           MulPart(x.f32() + begin, y.f32() + begin,
                                   call.out + begin, end - begin);
                         });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Mul);
void CpuMul(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(Mul)(call); }
}  // namespace deepslice
#endif
