// CPU kernel of Rope: pairs of each head rotated by position * freq.
#include <algorithm>
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/cpu_scratch.h"
#include "kernels/simd_targets.h"
#include "schema/base/checked_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/rope-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// freqs divided by stretch^(i / (half - 1)), in `out`.
template <typename T>
void StretchFreqs(const T* freqs, int64_t half, double stretch, float* out) {
  const Floats d;
  for (int64_t i = 0; i < half; i += FloatLanes()) {
    StoreSome(d, LoadSome(d, freqs + i, half - i), out + i, half - i);
  }
  for (int64_t i = 1; i < half; ++i) {
    out[i] = static_cast<float>(
        out[i] / std::pow(stretch, static_cast<double>(i) /
                                       static_cast<double>(half - 1)));
  }
}

void Rope(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::Rope::x];
  const int32_t* positions = call.in[operand::Rope::positions].i32();
  const CpuOperand& freqs = call.in[operand::Rope::freqs];
  const CpuOperand& longer = call.in[operand::Rope::long_freqs];
  const int32_t* slots = call.in[operand::Rope::slots].i32();
  const int32_t* horizons = call.in[operand::Rope::horizons].i32();
  const Attr* a = call.attrs;
  const int64_t long_from =
      horizons == nullptr ? 0 : a[attr::Rope::long_from].i;
  const double ntk = horizons == nullptr || longer.data != nullptr
                         ? 0
                         : a[attr::Rope::ntk_factor].f;
  const int64_t heads = a[attr::Rope::heads].i;
  const int64_t head_dim = a[attr::Rope::head_dim].i;
  const int64_t half = a[attr::Rope::rotary_dim].i / 2;
  const RopeStyle style = static_cast<RopeStyle>(a[attr::Rope::style].i);
  const double scale = a[attr::Rope::scale].f;
  // Per thread: cosines, sines and stretched frequencies of one token.
  const int64_t stride = RoundUp(half, 16);
  call.pool->ParallelFor(
      x.rows, 8192 / (x.cols + 1) + 1,
      [&](int64_t begin, int64_t end, int thread) HWY_ATTR {
        float* cosines = static_cast<float*>(call.scratch) +
                         static_cast<int64_t>(thread) * 3 * stride;
        float* sines = cosines + stride;
        float* stretched = sines + stride;
        for (int64_t t = begin; t < end; ++t) {
          const bool grows =
              longer.data != nullptr && horizons[slots[t]] > long_from;
          const CpuOperand& table = grows ? longer : freqs;
          const int64_t length =
              ntk > 0 ? std::max(horizons[slots[t]], positions[t] + 1) : 0;
          WithElementType(table.encoding, table.data, [&](auto* f) HWY_ATTR {
            if (length > long_from) {
              const double stretch = ntk * static_cast<double>(length) /
                                         static_cast<double>(long_from) -
                                     ntk + 1;
              StretchFreqs(f, half, stretch, stretched);
              RopeAngles(positions[t], stretched, half, scale, cosines, sines);
            } else {
              RopeAngles(positions[t], f, half, scale, cosines, sines);
            }
          });
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t at = t * x.cols + h * head_dim;
            RotateHead(x.f32() + at, cosines, sines, half, head_dim, style,
                       call.out + at);
          }
        }
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Rope);
void CpuRope(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(Rope)(call); }

int64_t RopeScratchBytes(const CpuShape& shape) {
  const int64_t half = shape.attrs[attr::Rope::rotary_dim].i / 2;
  return shape.num_threads * 3 * RoundUp(half, 16) *
         static_cast<int64_t>(sizeof(float));
}
}  // namespace deepslice
#endif
