// RmsNorm and LayerNorm of each head of a row.
#pragma once
#include "norm.cuh"

// Grid: rows x blocks of kWarps heads, a warp each. kEach: every head has a
// scale and a bias of its own.
template <typename X, typename Y, int kHeads, int kDim, int64_t kXStride,
          int64_t kYStride, bool kLayer, bool kBias, bool kEach,
          uint32_t kEpsBits, int kCount, int kMaxRows, int kVec, int kXWidth,
          int kYWidth, int kParamWidth, int kWarps, bool kHeld>
__global__ void __launch_bounds__(32 * kWarps)
    HeadNorm(const StepInfo* info, const X* x, const float* scale,
             const float* bias, Y* y) {
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const int head = blockIdx.y * kWarps + threadIdx.y;
  if (head >= kHeads) return;
  const int first = kEach ? head * kDim : 0;
  NormRow<kDim, kLayer, kBias, kEpsBits, kVec, kXWidth, kYWidth, kParamWidth,
          32, kHeld>(x + r * kXStride + head * kDim, scale + first,
                     kBias ? bias + first : nullptr, nullptr,
                     y + r * kYStride + head * kDim);
}
