// CPU kernel of Add: x + y [+ bias].
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/add_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void AddPart(const float* x, const float* y, float* z, int64_t n) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t i = 0; i < n; i += lanes) {
    const auto sum =
        hn::Add(LoadSome(d, x + i, n - i), LoadSome(d, y + i, n - i));
    StoreSome(d, sum, z + i, n - i);
  }
}

template <typename T>
void AddRowWithBias(const float* x, const float* y, const T* bias, float* z,
                    int64_t cols) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t c = 0; c < cols; c += lanes) {
    const int64_t n = cols - c;
    const auto sum = hn::Add(LoadSome(d, x + c, n), LoadSome(d, y + c, n));
    StoreSome(d, hn::Add(sum, LoadSome(d, bias + c, n)), z + c, n);
  }
}

void Add(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::Add::x];
  const CpuOperand& y = call.in[operand::Add::y];
  const CpuOperand& bias = call.in[operand::Add::bias];
  const int64_t cols = x.cols;
  call.pool->ParallelFor(
      x.rows, 16384 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        if (bias.data == nullptr) {
          AddPart(x.f32() + begin * cols, y.f32() + begin * cols,
                  call.out + begin * cols, (end - begin) * cols);
          return;
        }
        WithElementType(bias.encoding, bias.data, [&](auto* b) HWY_ATTR {
          for (int64_t r = begin; r < end; ++r) {
            AddRowWithBias(x.f32() + r * cols, y.f32() + r * cols, b,
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
HWY_EXPORT(Add);
void CpuAdd(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(Add)(call); }
}  // namespace deepslice
#endif
