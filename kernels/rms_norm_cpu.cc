// CPU kernel of RmsNorm: x / sqrt(mean(x^2) + eps) * scale.
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

template <typename T>
void RmsNormRow(const float* x, const T* scale, double eps, float* y,
                int64_t cols) {
  const double mean = SumOfSquares(x, 0.0, cols) / static_cast<double>(cols);
  NormalizeRow(x, 0.0, 1.0 / std::sqrt(mean + eps), scale,
               static_cast<const float*>(nullptr), y, cols);
}

void RmsNorm(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::RmsNorm::x];
  const CpuOperand& scale = call.in[operand::RmsNorm::scale];
  const double eps = call.attrs[attr::RmsNorm::eps].f;
  const int64_t cols = x.cols;
  call.pool->ParallelFor(
      x.rows, 8192 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(scale.encoding, scale.data, [&](auto* s) HWY_ATTR {
          for (int64_t r = begin; r < end; ++r) {
            RmsNormRow(x.f32() + r * cols, s, eps, call.out + r * cols, cols);
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
HWY_EXPORT(RmsNorm);
void CpuRmsNorm(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(RmsNorm)(call); }
}  // namespace deepslice
#endif
