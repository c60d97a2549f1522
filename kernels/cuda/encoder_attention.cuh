// Attention within a step: all tokens of a sequence lie side by side in it.
// Scores and sums in float; no tensor cores.
#pragma once
#include "relative_bias.cuh"
#include "row_util.cuh"

constexpr int kEncoderWarps = 4, kEncoderThreads = 32 * kEncoderWarps;
constexpr int kEncoderKeys = 32;  // that a block takes at a time: one a lane

// kPer queries of one head for each warp. Grid: heads, then queries in blocks.
// Query head i reads KV head (kHeadOffset + i) / kGroup. kScaleBits: the float
// by which scores are multiplied to be exponents of 2. A load takes kVec
// elements, in pieces of kWidth bytes. biases: of the query heads.
template <typename T, typename Bias, int kHeads, int kGroup, int kHeadOffset,
          int kDim, int64_t kQStride, int64_t kKStride, int64_t kVStride,
          int64_t kYStride, bool kCausal, uint32_t kScaleBits, int kCount,
          int kMaxRows, int kPer, int kVec, int kWidth>
__device__ __forceinline__ void EncoderBlock(
    const StepInfo* info, const T* q, const T* k, const T* v, const int* slots,
    const typename Bias::Element* biases, T* y) {
  constexpr int kRows = kEncoderWarps * kPer;
  constexpr int kMine = (kDim + 31) / 32;  // elements of a row for each lane
  constexpr int kPitch = kDim + 1;         // lanes read keys on 32 banks
  __shared__ float queries[kRows][kDim];
  __shared__ float held[kEncoderKeys * kPitch];  // keys, then their values
  __shared__ float weights[kRows][kEncoderKeys];
  __shared__ int range[2];

  GridDone();
  GridWait();
  const int tokens = RowCount<kCount>(info, kMaxRows);
  const int first = blockIdx.y * kRows;
  if (first >= tokens) return;
  const int last = min(first + kRows, tokens) - 1;
  const int head = blockIdx.x, kv = (kHeadOffset + head) / kGroup;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float none = -__int_as_float(0x7f800000);

  // From the begin of the first query's sequence to the last one's end.
  if (threadIdx.x == 0) range[0] = first, range[1] = last + 1;
  __syncthreads();
  {
    const int from = slots[first], to = slots[last];
    int begin = first, end = last + 1;
    for (int t = threadIdx.x; t < tokens; t += kEncoderThreads) {
      const int slot = slots[t];
      if (slot == from) begin = min(begin, t);
      if (!kCausal && slot == to) end = max(end, t + 1);
    }
    atomicMin(&range[0], begin);
    atomicMax(&range[1], end);
  }
  for (int i = threadIdx.x; i < kRows * kDim / kVec; i += kEncoderThreads) {
    const int r = i * kVec / kDim, d = i * kVec % kDim;
    float x[kVec] = {};
    if (first + r <= last) {
      LoadRow<kWidth>(q + (first + r) * kQStride + head * kDim + d, x);
    }
#pragma unroll
    for (int j = 0; j < kVec; ++j) queries[r][d + j] = x[j];
  }

  int own_slot[kPer];
  float most[kPer], sum[kPer], o[kPer][kMine] = {};
#pragma unroll
  for (int r = 0; r < kPer; ++r) {
    const int row = first + warp * kPer + r;
    own_slot[r] = row <= last ? slots[row] : -1;
    most[r] = none, sum[r] = 0;
  }
  __syncthreads();
  const int begin = range[0], end = range[1];
  const float scale = __uint_as_float(kScaleBits);

  const auto hold = [&](const T* from, int64_t stride, int at) {
    for (int i = threadIdx.x; i < kEncoderKeys * kDim / kVec;
         i += kEncoderThreads) {
      const int key = i * kVec / kDim, d = i * kVec % kDim;
      float x[kVec] = {};
      if (at + key < end) {
        LoadRow<kWidth>(from + (at + key) * stride + kv * kDim + d, x);
      }
#pragma unroll
      for (int j = 0; j < kVec; ++j) held[key * kPitch + d + j] = x[j];
    }
  };

  for (int at = begin; at < end; at += kEncoderKeys) {
    __syncthreads();  // what was held is free
    hold(k, kKStride, at);
    __syncthreads();
    float score[kPer] = {};
#pragma unroll 8
    for (int d = 0; d < kDim; ++d) {
      const float x = held[lane * kPitch + d];
#pragma unroll
      for (int r = 0; r < kPer; ++r) {
        score[r] += queries[warp * kPer + r][d] * x;
      }
    }
    const int key = at + lane;
    const int slot = key < end ? slots[key] : -1;
#pragma unroll
    for (int r = 0; r < kPer; ++r) {
      const int row = first + warp * kPer + r;
      const bool seen = slot >= 0 && slot == own_slot[r] &&
                        (!kCausal || key <= row);
      float exponent = seen ? score[r] * scale : none;
      if constexpr (Bias::present) {
        if (seen) {
          exponent += Bias::Exponent(biases + head * Bias::buckets, key - row);
        }
      }
      const float top = fmaxf(most[r], WarpMax(exponent));
      const float shrink = top != none ? exp2f(most[r] - top) : 1;
      const float weight = seen ? exp2f(exponent - top) : 0;
      most[r] = top;
      sum[r] = sum[r] * shrink + WarpSum(weight);
      weights[warp * kPer + r][lane] = weight;
#pragma unroll
      for (int i = 0; i < kMine; ++i) o[r][i] *= shrink;
    }
    __syncthreads();  // the keys were read
    hold(v, kVStride, at);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kEncoderKeys; ++j) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const int d = lane + 32 * i;
        if (kDim % 32 != 0 && d >= kDim) continue;
        const float x = held[j * kPitch + d];
#pragma unroll
        for (int r = 0; r < kPer; ++r) {
          o[r][i] += weights[warp * kPer + r][j] * x;
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kPer; ++r) {
    const int row = first + warp * kPer + r;
    if (row > last) continue;
    const float inverse = 1 / sum[r];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int d = lane + 32 * i;
      if (kDim % 32 != 0 && d >= kDim) continue;
      y[row * kYStride + head * kDim + d] = FromFloat<T>(o[r][i] * inverse);
    }
  }
}

template <typename T, int kHeads, int kGroup, int kHeadOffset, int kDim,
          int64_t kQStride, int64_t kKStride, int64_t kVStride,
          int64_t kYStride, bool kCausal, uint32_t kScaleBits, int kCount,
          int kMaxRows, int kPer, int kVec, int kWidth>
__global__ void __launch_bounds__(kEncoderThreads)
    EncoderAttention(const StepInfo* info, const T* q, const T* k, const T* v,
                     const int* slots, T* y) {
  EncoderBlock<T, NoRelativeBias, kHeads, kGroup, kHeadOffset, kDim, kQStride,
               kKStride, kVStride, kYStride, kCausal, kScaleBits, kCount,
               kMaxRows, kPer, kVec, kWidth>(info, q, k, v, slots, nullptr,
                                             y);
}
template <typename T, typename Bias, int kHeads, int kGroup, int kHeadOffset,
          int kDim, int64_t kQStride, int64_t kKStride, int64_t kVStride,
          int64_t kYStride, bool kCausal, uint32_t kScaleBits, int kCount,
          int kMaxRows, int kPer, int kVec, int kWidth>
__global__ void __launch_bounds__(kEncoderThreads)
    EncoderAttentionRelative(const StepInfo* info, const T* q, const T* k,
                             const T* v, const int* slots,
                             const typename Bias::Element* biases, T* y) {
  EncoderBlock<T, Bias, kHeads, kGroup, kHeadOffset, kDim, kQStride,
               kKStride, kVStride, kYStride, kCausal, kScaleBits, kCount,
               kMaxRows, kPer, kVec, kWidth>(info, q, k, v, slots, biases, y);
}
