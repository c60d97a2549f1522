// CPU kernel of HeadNorm: RmsNorm or LayerNorm of each head of a row.
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/head_norm_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// Head h of `x` with weights that begin at scale and bias; bias may be null.
template <typename S, typename B>
void NormHead(const float* x, bool layer, double eps, const S* scale,
              const B* bias, float* y, int64_t dim) {
  const auto n = static_cast<double>(dim);
  const double mean = layer ? Sum(x, dim) / n : 0;
  const double variance = SumOfSquares(x, mean, dim) / n;
  NormalizeRow(x, mean, 1.0 / std::sqrt(variance + eps), scale, bias, y, dim);
}

void HeadNorm(const CpuCall& call) {
  using In = operand::HeadNorm;
  using At = attr::HeadNorm;
  const CpuOperand& x = call.in[In::x];
  const CpuOperand& scale = call.in[In::scale];
  const CpuOperand& bias = call.in[In::bias];
  const bool layer =
      static_cast<NormKind>(call.attrs[At::kind].i) == NormKind::kLayer;
  const double eps = call.attrs[At::eps].f;
  const int64_t heads = call.attrs[At::heads].i;
  const int64_t dim = call.attrs[At::head_dim].i;
  const int64_t step = scale.cols == dim ? 0 : dim;  // between heads' weights
  call.pool->ParallelFor(
      x.rows * heads, 8192 / (dim + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(scale.encoding, scale.data, [&](auto* s) HWY_ATTR {
          WithElementType(bias.encoding, bias.data, [&](auto* b) HWY_ATTR {
            for (int64_t r = begin; r < end; ++r) {
              const int64_t at = r % heads * step;
              NormHead(x.f32() + r * dim, layer, eps, s + at,
                       b == nullptr ? b : b + at, call.out + r * dim, dim);
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
HWY_EXPORT(HeadNorm);
void CpuHeadNorm(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(HeadNorm)(call); }
}  // namespace deepslice
#endif
