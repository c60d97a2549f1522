// CPU kernel of AddBias: the same bias for every row.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/add_bias_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

template <typename T>
void AddBiasRow(const float* x, const T* bias, float* y, int64_t cols) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t c = 0; c < cols; c += lanes) {
    const int64_t n = cols - c;
    const auto sum = hn::Add(LoadSome(d, x + c, n), LoadSome(d, bias + c, n));
    StoreSome(d, sum, y + c, n);
  }
}

void AddBias(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::AddBias::x];
  const CpuOperand& bias = call.in[operand::AddBias::bias];
  const int64_t cols = x.cols;
  call.pool->ParallelFor(
      x.rows, 16384 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(bias.encoding, bias.data, [&](auto* b) HWY_ATTR {
          for (int64_t r = begin; r < end; ++r) {
            AddBiasRow(x.f32() + r * cols, b, call.out + r * cols, cols);
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
HWY_EXPORT(AddBias);
void CpuAddBias(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(AddBias)(call); }
}  // namespace deepslice
#endif
