// What the linear kernels share: the shape as literals, and what follows the
// sum of a row of w: norm factor, bias, activation or gate, residual.
#pragma once
#include "base.cuh"

// LinearShape of linear.h. kEps holds a float's bits, kAct an Act or kNoAct.
enum LinearOption {
  kByRows = 1,
  kGather = 2,
  kRmsNorm = 4,
  kLayerNorm = 8,
  kNormBias = 16,
  kBias = 32,
  kResidual = 64,
  kGated = 128,
};
template <typename T, int N>
struct alignas(N * sizeof(T)) LinearVector {
  T v[N];
};
// N elements from p; in one load if p is aligned to their size.
template <int N, bool kAligned = true, typename T>
__device__ __forceinline__ void LoadVector(const T* p, float (&out)[N]) {
  if constexpr (kAligned) {
    const auto vector = *reinterpret_cast<const LinearVector<T, N>*>(p);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = ToFloat(vector.v[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = ToFloat(p[i]);
  }
}

template <int kIn_, int kOut_, int kXStride_, int kYStride_,
          int kResidualStride_, int kTokens_, int kOptions_, uint32_t kEps_,
          int kAct_>
struct LinearShape {
  static constexpr int kIn = kIn_;    // columns of w
  static constexpr int kOut = kOut_;  // rows of w
  static constexpr int64_t kXStride = kXStride_;
  static constexpr int64_t kYStride = kYStride_;
  static constexpr int64_t kResidualStride = kResidualStride_;
  static constexpr int kTokens = kTokens_;  // most
  static constexpr int kAct = kAct_;
  static __device__ constexpr bool Has(int option) {
    return (kOptions_ & option) != 0;
  }
  static constexpr bool kNormed = Has(kRmsNorm) || Has(kLayerNorm);
  // Rows of w for a column of y.
  static constexpr int kPerColumn = Has(kGated) ? 2 : 1;

  static __device__ __forceinline__ float Eps() {
    return __uint_as_float(kEps_);
  }
  // Rows of y in this launch. After GridWait.
  static __device__ __forceinline__ int Count(const StepInfo* info) {
    const int n = Has(kByRows) ? info->rows : info->tokens;
    return n < kTokens ? n : kTokens;
  }
  // The row of x for row t of y. Rows at or above the count take row 0 when
  // they are gathered (`rows` holds nothing for them) and else their own, which
  // exists up to kTokens: what is read there goes into no row that is stored,
  // and so nothing waits for the count before it may load.
  static __device__ __forceinline__ int XRow(const int* rows, int t,
                                             int count) {
    if constexpr (Has(kGather)) return t < count ? rows[t] : 0;
    return t;
  }
  // What is added to the sums of y[t, column .. column + N), loaded ahead of its
  // use.
  template <int N>
  struct Addends {
    float bias[N * kPerColumn];
    float residual[N];
  };
  // Loads of several elements need rows that keep them aligned.
  template <int N>
  static constexpr bool kAligned = kOut % (N * kPerColumn) == 0;
  template <int N, typename T>
  static __device__ __forceinline__ Addends<N> LoadAddends(int t, int column,
                                                           const float* bias,
                                                           const T* residual) {
    Addends<N> a = {};
    if constexpr (Has(kBias)) {
      LoadVector<N * kPerColumn, kAligned<N>>(bias + column * kPerColumn,
                                              a.bias);
    }
    if constexpr (Has(kResidual)) {
      LoadVector<N, kAligned<N> && kResidualStride % N == 0>(
          residual + t * kResidualStride + column, a.residual);
    }
    return a;
  }
  // y[t, column] of the sums z[0] and, gated, z[1].
  static __device__ __forceinline__ float Finish(const float* z,
                                                 const float* bias,
                                                 float residual) {
    float v = Activate<kAct>(z[0] + bias[0]);
    if constexpr (Has(kGated)) v *= z[1] + bias[1];
    return v + residual;
  }
  // y[t, column .. column + N) of the sums z[N * kPerColumn].
  template <int N, typename Y>
  static __device__ __forceinline__ void Store(const float* z,
                                               const Addends<N>& a, int t,
                                               int column, Y* y) {
    LinearVector<Y, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out.v[i] = FromFloat<Y>(Finish(z + i * kPerColumn,
                                     a.bias + i * kPerColumn, a.residual[i]));
    }
    Y* to = y + t * kYStride + column;
    if constexpr (kAligned<N> && kYStride % N == 0) {
      *reinterpret_cast<LinearVector<Y, N>*>(to) = out;
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) to[i] = out.v[i];
    }
  }
};

// Over a row of kCols elements, the sum of x or, kSquares, of (x - mean)^2, in
// all lanes of the warp.
template <int kCols, int kVec, bool kSquares, typename T>
__device__ __forceinline__ float SumOfRow(const T* row, float mean) {
  float sum = 0;
#pragma unroll 4
  for (int k = threadIdx.x % 32 * kVec; k < kCols; k += 32 * kVec) {
    float v[kVec];
    LoadVector(row + k, v);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sum += kSquares ? (v[i] - mean) * (v[i] - mean) : v[i];
    }
  }
  return WarpSum(sum);
}

// Mean and 1 / deviation (RmsNorm: 0 and 1 / rms) of x's rows to out[kTokens],
// a warp of the block's kWarps a row, in loads of kVec elements.
template <typename T, typename S, int kWarps, int kVec>
__device__ __forceinline__ void RowStatistics(const T* x, const int* rows,
                                              int count, float2* out) {
  for (int t = threadIdx.x / 32; t < S::kTokens; t += kWarps) {
    const T* row = x + S::XRow(rows, t, count) * S::kXStride;
    float mean = 0;
    if constexpr (S::Has(kLayerNorm)) {
      mean = SumOfRow<S::kIn, kVec, false>(row, 0) / S::kIn;
    }
    // The squares of differences, not of x: those cancel where the mean is
    // large.
    const float squares = SumOfRow<S::kIn, kVec, true>(row, mean);
    if (threadIdx.x % 32 == 0) {
      out[t] = make_float2(mean, rsqrtf(squares / S::kIn + S::Eps()));
    }
  }
}
