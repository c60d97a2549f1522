// Rows times a number, or under a softcap, added to other rows or not.
#pragma once
#include "row_util.cuh"

// Grid: rows x blocks of kThreads vectors. y may be x or `second`: a thread
// reads what it needs before it writes, and writes only what it alone reads.
template <typename X, typename Y, int kCols, int64_t kXStride, int64_t kYStride,
          int64_t kSecondStride, bool kSoftcap, uint32_t kFactorBits,
          bool kSecond, int kCount, int kMaxRows, int kVec, int kXWidth,
          int kYWidth, int kSecondWidth, int kThreads>
__global__ void __launch_bounds__(kThreads)
    Scale(const StepInfo* info, const X* x, const Y* second, Y* y) {
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const int c = (blockIdx.y * kThreads + threadIdx.x) * kVec;
  if (c >= kCols) return;
  const float factor = __uint_as_float(kFactorBits);
  float v[kVec], other[kVec];
  LoadRow<kXWidth>(x + r * kXStride + c, v);
  if constexpr (kSecond) {
    LoadRow<kSecondWidth>(second + r * kSecondStride + c, other);
  }
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    v[j] = factor * (kSoftcap ? tanhf(v[j] / factor) : v[j]);
    if constexpr (kSecond) v[j] += other[j];
  }
  StoreRow<kYWidth>(y + r * kYStride + c, v);
}
