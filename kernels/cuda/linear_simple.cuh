// Linear layers of up to 32 tokens for any type and any size: float products
// and sums, no tensor core. Float32 plans run on it (never in TF32), and 16-bit
// layers whose rows are not on 16 bytes.
#pragma once
#include "linear_shape.cuh"

// A warp makes two adjacent rows of w (a gated pair) times kGroup tokens at a
// time: its lanes share out k in vectors of kVec elements, which divides kIn
// and the strides of x. Norms are applied in float as x is read. Dynamic shared
// memory: with a norm, a float2 for each token.
template <typename T, typename W, typename Y, typename S, int kWarps, int kVec,
          int kGroup>
__global__ void __launch_bounds__(kWarps * 32)
    LinearSimple(const StepInfo* info, const T* x, const W* w,
                 const float* norm_scale, const float* norm_bias,
                 const float* bias, const T* residual, const int* rows, Y* y) {
  static_assert(S::kIn % kVec == 0, "vectors are whole");
  GridDone();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = (static_cast<int>(blockIdx.x) * kWarps + warp) * 2;
  // Where there is no such row, the last one is read and nothing stored.
  const W* w_rows[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    w_rows[r] = w + static_cast<int64_t>(min(row + r, S::kOut - 1)) * S::kIn;
    constexpr int kLine = 128 / sizeof(W);
    if (lane * kLine < S::kIn) PrefetchL2(w_rows[r] + lane * kLine);
  }
  GridWait();

  const int count = S::Count(info);
  float2* statistics = DynamicShared<float2>();
  if constexpr (S::kNormed) {
    RowStatistics<T, S, kWarps, kVec>(x, rows, count, statistics);
    __syncthreads();
  }
  for (int first = 0; first < count; first += kGroup) {
    const T* x_rows[kGroup];
    float2 norms[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      // Beyond the last token: it again, and nothing is stored.
      const int t = min(first + i, count - 1);
      x_rows[i] = x + S::XRow(rows, t, count) * S::kXStride;
      if constexpr (S::kNormed) norms[i] = statistics[t];
    }
    float sums[2][kGroup] = {};
#pragma unroll 2
    for (int k = lane * kVec; k < S::kIn; k += 32 * kVec) {
      float weights[2][kVec], scale[kVec], shift[kVec];
      LoadVector(w_rows[0] + k, weights[0]);
      LoadVector(w_rows[1] + k, weights[1]);
      if constexpr (S::kNormed) LoadVector(norm_scale + k, scale);
      if constexpr (S::Has(kNormBias)) LoadVector(norm_bias + k, shift);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        float v[kVec];
        LoadVector(x_rows[i] + k, v);
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          if constexpr (S::kNormed) {
            v[j] = (v[j] - norms[i].x) * norms[i].y * scale[j];
            if constexpr (S::Has(kNormBias)) v[j] += shift[j];
          }
          sums[0][i] = fmaf(weights[0][j], v[j], sums[0][i]);
          sums[1][i] = fmaf(weights[1][j], v[j], sums[1][i]);
        }
      }
    }
    // Lane i * kColumns + j takes column j of token i.
    constexpr int kColumns = 2 / S::kPerColumn;
    const int column = row / S::kPerColumn + lane % kColumns;
    const int t = first + lane / kColumns;
    float z[S::kPerColumn] = {};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = WarpSum(sums[r][i]);
        if (lane == i * kColumns + r / S::kPerColumn) {
          z[r % S::kPerColumn] = sum;
        }
      }
    }
    if (lane < kGroup * kColumns && t < count &&
        column < S::kOut / S::kPerColumn) {
      S::Store(z, S::template LoadAddends<1>(t, column, bias, residual), t,
               column, y);
    }
  }
}
