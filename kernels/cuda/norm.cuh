// RmsNorm and LayerNorm of rows.
#pragma once
#include "row_util.cuh"

// The sum over the kThreads threads of a row, the same bits in all of them.
// `warps` is the row's own, one float a warp.
template <int kThreads>
__device__ __forceinline__ float RowSum(float x, float* warps) {
  x = WarpSum(x);
  if constexpr (kThreads > 32) {
    __syncthreads();  // the sum before this one has been read
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    x = WarpSum(lane < kThreads / 32 ? warps[lane] : 0.0f);
  }
  return x;
}

// Calls f(vector, column) with each of a thread's vectors of a row: those in
// `held`, or where kHeld is false, read again into its first.
template <bool kHeld, int kWidth, int kCols, int kStride, typename X, int kSteps,
          int kVec, typename F>
__device__ __forceinline__ void EachVector(const X* in,
                                           float (&held)[kSteps][kVec],
                                           const F& f) {
  const int begin = threadIdx.x * kVec;
  if constexpr (kHeld) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (begin + i * kStride < kCols) f(held[i], begin + i * kStride);
    }
  } else {
    for (int c = begin; c < kCols; c += kStride) {
      LoadRow<kWidth>(in + c, held[0]);
      f(held[0], c);
    }
  }
}

// A row by kThreads threads. kHeld: a thread keeps its elements; else a row is
// so long that it reads them again.
template <int kCols, bool kLayer, bool kBias, uint32_t kEpsBits, int kVec,
          int kXWidth, int kYWidth, int kParamWidth, int kThreads, bool kHeld,
          typename X, typename Y>
__device__ __forceinline__ void NormRow(const X* in, const float* scale,
                                        const float* bias, float* warps,
                                        Y* out) {
  constexpr int kStride = kThreads * kVec;
  constexpr int kSteps = (kCols + kStride - 1) / kStride;
  float held[kHeld ? kSteps : 1][kVec];
  if constexpr (kHeld) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int c = threadIdx.x * kVec + i * kStride;
      if (c < kCols) LoadRow<kXWidth>(in + c, held[i]);
    }
  }
  float mean = 0;
  if constexpr (kLayer) {
    float sum = 0;
    EachVector<kHeld, kXWidth, kCols, kStride>(
        in, held, [&](float(&v)[kVec], int) {
#pragma unroll
          for (int j = 0; j < kVec; ++j) sum += v[j];
        });
    mean = RowSum<kThreads>(sum, warps) / kCols;
  }
  float squares = 0;
  EachVector<kHeld, kXWidth, kCols, kStride>(
      in, held, [&](float(&v)[kVec], int) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          squares += (v[j] - mean) * (v[j] - mean);
        }
      });
  squares = RowSum<kThreads>(squares, warps);
  const float inverse = rsqrtf(squares / kCols + __uint_as_float(kEpsBits));

  EachVector<kHeld, kXWidth, kCols, kStride>(
      in, held, [&](float(&v)[kVec], int c) {
        float s[kVec], b[kVec] = {};
        LoadRow<kParamWidth>(scale + c, s);
        if constexpr (kBias) LoadRow<kParamWidth>(bias + c, b);
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          v[j] = (v[j] - mean) * inverse * s[j] + b[j];
        }
        StoreRow<kYWidth>(out + c, v);
      });
}

// threadIdx.x runs over a row, threadIdx.y over the rows of a block, of which
// there is one when a row has more than a warp.
template <typename X, typename Y, int kCols, int64_t kXStride, int64_t kYStride,
          bool kLayer, bool kBias, bool kGather, uint32_t kEpsBits, int kCount,
          int kMaxRows, int kVec, int kXWidth, int kYWidth, int kParamWidth,
          int kThreads, int kRowsPerBlock, bool kHeld>
__global__ void __launch_bounds__(kThreads* kRowsPerBlock)
    Norm(const StepInfo* info, const X* x, const float* scale,
         const float* bias, const int* rows, Y* y) {
  static_assert(kThreads == 32 || kRowsPerBlock == 1, "one kind of sum");
  __shared__ float warps[32];
  GridDone();
  GridWait();
  const int r = blockIdx.x * kRowsPerBlock + threadIdx.y;
  // A warp or the whole block leaves: the sums need all of a row's threads.
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  NormRow<kCols, kLayer, kBias, kEpsBits, kVec, kXWidth, kYWidth, kParamWidth,
          kThreads, kHeld>(x + (kGather ? rows[r] : r) * kXStride, scale, bias,
                           warps, y + r * kYStride);
}
