// CPU kernel of SumSquares: the sum of squares of some columns of each row.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum_squares_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void SumSquares(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::SumSquares::x];
  const int64_t first = call.attrs[attr::SumSquares::begin].i;
  const int64_t count = call.attrs[attr::SumSquares::end].i - first;
  call.pool->ParallelFor(x.rows, 16384 / (x.cols + 1) + 1,
                         [&](int64_t begin, int64_t end, int) HWY_ATTR {
                           for (int64_t r = begin; r < end; ++r) {
                             call.out[r] = static_cast<float>(SumOfSquares(
                                 x.f32() + r * x.cols + first, 0.0, count));
                           }
                         });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(SumSquares);
void CpuSumSquares(const CpuCall& call) {
  HWY_DYNAMIC_DISPATCH(SumSquares)(call);
}
}  // namespace deepslice
#endif
