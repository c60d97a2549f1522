// CPU kernel of RmsNormOver: RmsNorm with the sum of squares given.
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_over_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void RmsNormOver(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::RmsNormOver::x];
  const float* sums = call.in[operand::RmsNormOver::sums].f32();
  const CpuOperand& scale = call.in[operand::RmsNormOver::scale];
  const auto count =
      static_cast<double>(call.attrs[attr::RmsNormOver::count].i);
  const double eps = call.attrs[attr::RmsNormOver::eps].f;
  const int64_t cols = x.cols;
  call.pool->ParallelFor(
      x.rows, 8192 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(scale.encoding, scale.data, [&](auto* s) HWY_ATTR {
          for (int64_t r = begin; r < end; ++r) {
            NormalizeRow(x.f32() + r * cols, 0.0,
                         1.0 / std::sqrt(sums[r] / count + eps), s,
                         static_cast<const float*>(nullptr),
                         call.out + r * cols, cols);
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
HWY_EXPORT(RmsNormOver);
void CpuRmsNormOver(const CpuCall& call) {
  HWY_DYNAMIC_DISPATCH(RmsNormOver)(call);
}
}  // namespace deepslice
#endif
