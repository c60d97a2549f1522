// Rotary positions on heads of their own.
#pragma once
#include "row_util.cuh"

// Item of a thread, a pair or an element behind rotary_dim, of a head; pair i
// has frequency f(i). y may be x.
template <typename X, typename Y, int kHeads, int kHeadDim, int kRotaryDim,
          bool kInterleaved, uint32_t kScaleBits, typename F>
__device__ __forceinline__ void RotateItem(int item, const X* x, int position,
                                           Y* y, F f) {
  constexpr int kHalf = kRotaryDim / 2;
  constexpr int kItems = kHeadDim - kHalf;  // of a head
  if (item >= kHeads * kItems) return;
  const int head = item / kItems, i = item % kItems;
  const X* in = x + head * kHeadDim;
  Y* out = y + head * kHeadDim;
  if (i >= kHalf) {
    out[i + kHalf] = FromFloat<Y>(ToFloat(in[i + kHalf]));
    return;
  }
  // Turns in double, brought near 0: at position 100000 a float product is off
  // by thousandths. Sines of multiples of pi have no slow path.
  double turns = static_cast<double>(position) * f(i) * 0.15915494309189535;
  turns -= rint(turns);
  float s, c;
  sincospif(static_cast<float>(2 * turns), &s, &c);
  s *= __uint_as_float(kScaleBits);
  c *= __uint_as_float(kScaleBits);
  const int ia = kInterleaved ? 2 * i : i;
  const int ib = kInterleaved ? 2 * i + 1 : i + kHalf;
  const float a = ToFloat(in[ia]), b = ToFloat(in[ib]);
  out[ia] = FromFloat<Y>(a * c - b * s);
  out[ib] = FromFloat<Y>(a * s + b * c);
}

// Grid: tokens x blocks of kThreads items.
template <typename X, typename Y, int kHeads, int kHeadDim, int kRotaryDim,
          int64_t kXStride, int64_t kYStride, bool kInterleaved,
          uint32_t kScaleBits, int kMaxRows, int kThreads>
__global__ void __launch_bounds__(kThreads)
    Rope(const StepInfo* info, const X* x, const int* positions,
         const float* freqs, Y* y) {
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCountTokens>(info, kMaxRows)) return;
  RotateItem<X, Y, kHeads, kHeadDim, kRotaryDim, kInterleaved, kScaleBits>(
      blockIdx.y * kThreads + threadIdx.x, x + t * kXStride, positions[t],
      y + t * kYStride, [&](int i) { return freqs[i]; });
}

// The same with long_freqs for sequences that may grow beyond kLongFrom tokens.
template <typename X, typename Y, int kHeads, int kHeadDim, int kRotaryDim,
          int64_t kXStride, int64_t kYStride, bool kInterleaved,
          uint32_t kScaleBits, int kMaxRows, int kThreads, int kLongFrom>
__global__ void __launch_bounds__(kThreads)
    RopeOfLength(const StepInfo* info, const X* x, const int* positions,
                 const float* freqs, const float* long_freqs, const int* slots,
                 const int* horizons, Y* y) {
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCountTokens>(info, kMaxRows)) return;
  const float* table = horizons[slots[t]] > kLongFrom ? long_freqs : freqs;
  RotateItem<X, Y, kHeads, kHeadDim, kRotaryDim, kInterleaved, kScaleBits>(
      blockIdx.y * kThreads + threadIdx.x, x + t * kXStride, positions[t],
      y + t * kYStride, [&](int i) { return table[i]; });
}

// The same with frequencies that a sequence beyond kLongFrom tokens stretches
// as it grows (dynamic NTK; ops.def). kFactorBits: ntk_factor.
template <typename X, typename Y, int kHeads, int kHeadDim, int kRotaryDim,
          int64_t kXStride, int64_t kYStride, bool kInterleaved,
          uint32_t kScaleBits, int kMaxRows, int kThreads, int kLongFrom,
          uint32_t kFactorBits>
__global__ void __launch_bounds__(kThreads)
    RopeDynamic(const StepInfo* info, const X* x, const int* positions,
                const float* freqs, const int* slots, const int* horizons,
                Y* y) {
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCountTokens>(info, kMaxRows)) return;
  const int length = max(horizons[slots[t]], positions[t] + 1);
  const double factor = __uint_as_float(kFactorBits);
  const double stretch =
      length > kLongFrom ? factor * length / kLongFrom - factor + 1 : 1;
  const double most = log2(stretch);
  RotateItem<X, Y, kHeads, kHeadDim, kRotaryDim, kInterleaved, kScaleBits>(
      blockIdx.y * kThreads + threadIdx.x, x + t * kXStride, positions[t],
      y + t * kYStride, [&](int i) {
        // The first pair turns as ever, the last by all of it.
        constexpr int kLast = kRotaryDim > 2 ? kRotaryDim / 2 - 1 : 1;
        return freqs[i] * exp2(-most * i / kLast);
      });
}
