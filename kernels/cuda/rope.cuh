// Rotary positions on heads of their own.
#pragma once
#include "row_util.cuh"

// Item of a thread, a pair or an element behind rotary_dim, of a head. y may be
// x.
template <typename X, typename Y, int kHeads, int kHeadDim, int kRotaryDim,
          bool kInterleaved, uint32_t kScaleBits>
__device__ __forceinline__ void RotateItem(int item, const X* x, int position,
                                           const float* freqs, Y* y) {
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
  double turns = static_cast<double>(position) * freqs[i] * 0.15915494309189535;
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
      freqs, y + t * kYStride);
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
  RotateItem<X, Y, kHeads, kHeadDim, kRotaryDim, kInterleaved, kScaleBits>(
      blockIdx.y * kThreads + threadIdx.x, x + t * kXStride, positions[t],
      horizons[slots[t]] > kLongFrom ? long_freqs : freqs, y + t * kYStride);
}
