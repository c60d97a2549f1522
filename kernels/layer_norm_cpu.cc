// CPU kernel of LayerNorm: (x - mean) / sqrt(variance + eps) * scale [+ bias].
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// `bias` may be null.
template <typename S, typename B>
void LayerNormRow(const float* x, const S* scale, const B* bias, double eps,
                  float* y, int64_t cols) {
  const double mean = Sum(x, cols) / static_cast<double>(cols);
  const double variance =
      SumOfSquares(x, mean, cols) / static_cast<double>(cols);
  NormalizeRow(x, mean, 1.0 / std::sqrt(variance + eps), scale, bias, y, cols);
}

void LayerNorm(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::LayerNorm::x];
  const CpuOperand& scale = call.in[operand::LayerNorm::scale];
  const CpuOperand& bias = call.in[operand::LayerNorm::bias];
  const double eps = call.attrs[attr::LayerNorm::eps].f;
  const int64_t cols = x.cols;
  call.pool->ParallelFor(
      x.rows, 8192 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(scale.encoding, scale.data, [&](auto* s) HWY_ATTR {
          WithElementType(bias.encoding, bias.data, [&](auto* b) HWY_ATTR {
            for (int64_t r = begin; r < end; ++r) {
              LayerNormRow(x.f32() + r * cols, s, b, eps, call.out + r * cols,
                           cols);
            }
          });
        });
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(LayerNorm);
void CpuLayerNorm(const CpuCall& call) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(call);
}
}  // namespace deepslice
#endif
