// Rotary positions on heads of their own.
#pragma once
#include "row_util.cuh"

// A thread takes a pair, or an element behind rotary_dim. y may be x.
template <typename X, typename Y, int kHeads, int kHeadDim, int kRotaryDim,
          int64_t kXStride, int64_t kYStride, bool kInterleaved,
          uint32_t kScaleBits, int kMaxRows, int kThreads>
__global__ void __launch_bounds__(kThreads)
    Rope(const StepInfo* info, const X* x, const int* positions,
         const float* freqs, Y* y) {
  constexpr int kHalf = kRotaryDim / 2;
  constexpr int kItems = kHeadDim - kHalf;  // of a head
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCountTokens>(info, kMaxRows)) return;
  const int item = blockIdx.y * kThreads + threadIdx.x;
  if (item >= kHeads * kItems) return;
  const int head = item / kItems, i = item % kItems;
  const X* in = x + t * kXStride + head * kHeadDim;
  Y* out = y + t * kYStride + head * kHeadDim;
  if (i >= kHalf) {
    out[i + kHalf] = FromFloat<Y>(ToFloat(in[i + kHalf]));
    return;
  }
  // The angle in double, brought near 0: at position 100000 a float product is
  // off by thousandths.
  double angle = static_cast<double>(positions[t]) * freqs[i];
  angle -= rint(angle * 0.15915494309189535) * 6.283185307179586;
  float s, c;
  sincosf(static_cast<float>(angle), &s, &c);
  s *= __uint_as_float(kScaleBits);
  c *= __uint_as_float(kScaleBits);
  const int ia = kInterleaved ? 2 * i : i;
  const int ib = kInterleaved ? 2 * i + 1 : i + kHalf;
  const float a = ToFloat(in[ia]), b = ToFloat(in[ib]);
  out[ia] = FromFloat<Y>(a * c - b * s);
  out[ib] = FromFloat<Y>(a * s + b * c);
}
