// Bias, activation, gate, sum and product of rows, or a plain copy.
#pragma once
#include "row_util.cuh"

// ElementwiseShape::Second by number.
enum { kSecondNone = 0, kSecondAdd = 1, kSecondMul = 2 };

// Grid: rows x blocks of kThreads * kSteps vectors of kVec elements of x. y may
// be x or `second`: a thread reads all that it needs before it writes, and
// writes only places that it alone reads.
template <typename X, typename Y, int kCols, int64_t kXStride, int64_t kYStride,
          int64_t kSecondStride, int kAct, bool kGated, bool kBias,
          bool kGather, int kSecond, int kCount, int kMaxRows, int kVec,
          int kXWidth, int kYWidth, int kSecondWidth, int kBiasWidth,
          int kThreads, int kSteps>
__global__ void __launch_bounds__(kThreads)
    Elementwise(const StepInfo* info, const X* x, const Y* second,
                const float* bias, const int* rows, Y* y) {
  constexpr int kOut = kGated ? kVec / 2 : kVec;
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const X* in = x + (kGather ? rows[r] : r) * kXStride;
  const int begin = (blockIdx.y * kThreads * kSteps + threadIdx.x) * kVec;
  float v[kSteps][kVec], other[kSteps][kOut];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int c = begin + i * kThreads * kVec;
    if (c >= kCols) continue;
    LoadRow<kXWidth>(in + c, v[i]);
    if constexpr (kSecond != kSecondNone) {
      const int at = kGated ? c / 2 : c;
      LoadRow<kSecondWidth>(second + r * kSecondStride + at, other[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int c = begin + i * kThreads * kVec;
    if (c >= kCols) continue;
    if constexpr (kBias) {
      float b[kVec];
      LoadRow<kBiasWidth>(bias + c, b);
#pragma unroll
      for (int j = 0; j < kVec; ++j) v[i][j] += b[j];
    }
    float z[kOut];
#pragma unroll
    for (int j = 0; j < kOut; ++j) {
      if constexpr (kGated) {
        z[j] = Activate<kAct>(v[i][2 * j]) * v[i][2 * j + 1];
      } else {
        z[j] = Activate<kAct>(v[i][j]);
      }
      if constexpr (kSecond == kSecondAdd) z[j] += other[i][j];
      if constexpr (kSecond == kSecondMul) z[j] *= other[i][j];
    }
    StoreRow<kYWidth>(y + r * kYStride + (kGated ? c / 2 : c), z);
  }
}
