// RmsNorm of rows that several ranks hold parts of: sums of squares, and the
// norm once they are added.
#pragma once
#include "norm.cuh"

// A block a row.
template <typename X, int kBegin, int kEnd, int64_t kXStride, int kCount,
          int kMaxRows, int kVec, int kXWidth, int kThreads>
__global__ void __launch_bounds__(kThreads)
    SumSquares(const StepInfo* info, const X* x, float* y) {
  __shared__ float warps[32];
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const X* in = x + r * kXStride;
  float sum = 0;
  for (int c = kBegin + threadIdx.x * kVec; c < kEnd; c += kThreads * kVec) {
    float v[kVec];
    LoadRow<kXWidth>(in + c, v);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum += v[j] * v[j];
  }
  sum = RowSum<kThreads>(sum, warps);
  if (threadIdx.x == 0) y[r] = sum;
}

// Grid: rows x blocks of kThreads vectors. kPartBits: 1 / columns of all ranks.
template <typename X, typename Y, int kCols, int64_t kXStride, int64_t kYStride,
          uint32_t kPartBits, uint32_t kEpsBits, int kCount, int kMaxRows,
          int kVec, int kXWidth, int kYWidth, int kParamWidth, int kThreads>
__global__ void __launch_bounds__(kThreads)
    RmsNormOver(const StepInfo* info, const X* x, const float* sums,
                const float* scale, Y* y) {
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const int c = (blockIdx.y * kThreads + threadIdx.x) * kVec;
  if (c >= kCols) return;
  const float inverse = rsqrtf(sums[r] * __uint_as_float(kPartBits) +
                               __uint_as_float(kEpsBits));
  float v[kVec], s[kVec];
  LoadRow<kXWidth>(x + r * kXStride + c, v);
  LoadRow<kParamWidth>(scale + c, s);
#pragma unroll
  for (int j = 0; j < kVec; ++j) v[j] = v[j] * inverse * s[j];
  StoreRow<kYWidth>(y + r * kYStride + c, v);
}
