// Each head's part of a row times its own block of weights; sums in float.
#pragma once
#include "row_util.cuh"

constexpr int kHeadLinearWarps = 8, kHeadLinearThreads = 32 * kHeadLinearWarps;

// Where the tokens of a block begin and end.
template <int kCount, int kMaxRows, int kGroup>
struct HeadLinearTokens {
  int first, end;
  __device__ __forceinline__ explicit HeadLinearTokens(const StepInfo* info)
      : first(blockIdx.y * kGroup),
        end(min(RowCount<kCount>(info, kMaxRows), first + kGroup)) {}
};

// y[t, h * kOut + o] = sum over i of x[t, h * kIn + i] * w[h * kOut + o, i]. A
// warp makes kRows rows of w, of one head, times kGroup tokens; its lanes share
// out i in vectors of kVec. Grid: blocks of rows x groups of tokens.
template <typename T, typename W, typename Y, int kHeads, int kIn, int kOut,
          int64_t kXStride, int64_t kYStride, int kCount, int kMaxRows,
          int kRows, int kVec, int kXWidth, int kWidth, int kGroup>
__global__ void __launch_bounds__(kHeadLinearThreads)
    HeadLinearRows(const StepInfo* info, const T* x, const W* w, Y* y) {
  static_assert(kOut % kRows == 0 && kIn % kVec == 0, "parts are whole");
  GridDone();
  GridWait();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = (blockIdx.x * kHeadLinearWarps + warp) * kRows;
  const HeadLinearTokens<kCount, kMaxRows, kGroup> tokens(info);
  if (row >= kHeads * kOut || tokens.first >= tokens.end) return;
  const T* in = x + row / kOut * kIn;
  float sums[kRows][kGroup] = {};
  for (int i = lane * kVec; i < kIn; i += 32 * kVec) {
    float weights[kRows][kVec];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      LoadRow<kWidth>(w + static_cast<int64_t>(row + r) * kIn + i, weights[r]);
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      // Beyond the last token: it again, and nothing is stored.
      const int64_t t = min(tokens.first + g, tokens.end - 1);
      float v[kVec];
      LoadRow<kXWidth>(in + t * kXStride + i, v);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) sums[r][g] += weights[r][j] * v[j];
      }
    }
  }
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    const int64_t t = tokens.first + g;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float sum = WarpSum(sums[r][g]);
      if (lane == r && t < tokens.end) {
        y[t * kYStride + row + r] = FromFloat<Y>(sum);
      }
    }
  }
}

// The transposed form: y[t, h * kOut + o] = sum over i of x[t, h * kIn + i] *
// w[h * kIn + i, o]. A block makes 32 * kVec columns of a head, a lane kVec of
// them; its warps share out i. Grid: kBlocks for each head x groups of tokens.
template <typename T, typename W, typename Y, int kHeads, int kIn, int kOut,
          int64_t kXStride, int64_t kYStride, int kCount, int kMaxRows,
          int kBlocks, int kVec, int kWidth, int kGroup>
__global__ void __launch_bounds__(kHeadLinearThreads)
    HeadLinearColumns(const StepInfo* info, const T* x, const W* w, Y* y) {
  static_assert(kOut % kVec == 0, "vectors are whole");
  constexpr int kColumns = 32 * kVec;
  __shared__ float parts[kHeadLinearWarps][kGroup][kColumns];
  GridDone();
  GridWait();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.x / kBlocks;
  const int begin = blockIdx.x % kBlocks * kColumns;
  const HeadLinearTokens<kCount, kMaxRows, kGroup> tokens(info);
  if (tokens.first >= tokens.end) return;
  const T* in = x + head * kIn;
  const W* block = w + static_cast<int64_t>(head) * kIn * kOut;
  const int column = begin + lane * kVec;
  float sums[kGroup][kVec] = {};
  if (column < kOut) {
#pragma unroll 4
    for (int i = warp; i < kIn; i += kHeadLinearWarps) {
      float weights[kVec];
      LoadRow<kWidth>(block + static_cast<int64_t>(i) * kOut + column, weights);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        // Beyond the last token: it again, and nothing is stored.
        const int64_t t = min(tokens.first + g, tokens.end - 1);
        const float v = ToFloat(in[t * kXStride + i]);
#pragma unroll
        for (int j = 0; j < kVec; ++j) sums[g][j] += weights[j] * v;
      }
    }
  }
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
#pragma unroll
    for (int j = 0; j < kVec; ++j) parts[warp][g][lane * kVec + j] = sums[g][j];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kGroup * kColumns; i += kHeadLinearThreads) {
    const int g = i / kColumns, c = i % kColumns;
    const int64_t t = tokens.first + g;
    if (t >= tokens.end || begin + c >= kOut) continue;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kHeadLinearWarps; ++k) sum += parts[k][g][c];
    y[t * kYStride + head * kOut + begin + c] = FromFloat<Y>(sum);
  }
}
