// Rows of heads out of two: each head's part of a, then its part of b.
#pragma once
#include "row_util.cuh"

// Grid: rows x blocks of kThreads vectors, which lie within one part.
template <typename X, typename Y, int kHeads, int kOfA, int kOfB,
          int64_t kAStride, int64_t kBStride, int64_t kYStride, int kCount,
          int kMaxRows, int kVec, int kAWidth, int kBWidth, int kYWidth,
          int kThreads>
__global__ void __launch_bounds__(kThreads)
    ConcatHeads(const StepInfo* info, const X* a, const X* b, Y* y) {
  constexpr int kDim = kOfA + kOfB;
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const int c = (blockIdx.y * kThreads + threadIdx.x) * kVec;
  if (c >= kHeads * kDim) return;
  const int head = c / kDim, i = c % kDim;
  float v[kVec];
  if (i < kOfA) {
    LoadRow<kAWidth>(a + r * kAStride + head * kOfA + i, v);
  } else {
    LoadRow<kBWidth>(b + r * kBStride + head * kOfB + (i - kOfA), v);
  }
  StoreRow<kYWidth>(y + r * kYStride + c, v);
}
