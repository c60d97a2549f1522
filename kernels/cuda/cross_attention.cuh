// Attention of a decoder's tokens to the keys of an encoder, kept in a block
// for each source slot: keys [kKvHeads][kBlockTokens][kDim], then values alike.
// Scores and sums in float; no tensor cores.
#pragma once
#include "row_util.cuh"

constexpr int kCrossWarps = 8, kCrossThreads = 32 * kCrossWarps;
constexpr int kCrossAhead = 4;  // keys that a warp takes at a time

// Keeps the keys and values of a step's source tokens. Its output is left as it
// is. Grid: source tokens.
template <typename T, typename C, int kKvHeads, int kDim, int64_t kKStride,
          int64_t kVStride, int kBlockTokens, int kMaxRows>
__global__ void __launch_bounds__(kCrossThreads)
    CrossAppend(const StepInfo* info, const T* k, const T* v,
                const int* positions, const int* slots, C* state, uint8_t*) {
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCountSourceTokens>(info, kMaxRows)) return;
  constexpr int64_t kHalf =
      static_cast<int64_t>(kKvHeads) * kBlockTokens * kDim;
  C* block = state + 2 * kHalf * slots[t];
  const int position = positions[t];
  for (int i = threadIdx.x; i < kKvHeads * kDim; i += kCrossThreads) {
    const int64_t at =
        (static_cast<int64_t>(i / kDim) * kBlockTokens + position) * kDim +
        i % kDim;
    block[at] = FromFloat<C>(ToFloat(k[t * kKStride + i]));
    block[kHalf + at] = FromFloat<C>(ToFloat(v[t * kVStride + i]));
  }
}

// Grid: query heads, tokens. Query head i reads KV head (kHeadOffset + i) /
// kGroup. kScaleBits: the float by which scores are multiplied to be exponents
// of 2. sources: of each slot, its source slot and how many keys that has.
template <typename T, typename C, int kKvHeads, int kGroup, int kHeadOffset,
          int kDim, int64_t kQStride, int64_t kYStride, int kBlockTokens,
          uint32_t kScaleBits, int kMaxRows>
__global__ void __launch_bounds__(kCrossThreads)
    CrossAttention(const StepInfo* info, const T* q, const int* slots,
                   const int* sources, const C* state, T* y) {
  constexpr int kMine = (kDim + 31) / 32;  // elements of a row for each lane
  constexpr int64_t kHalf =
      static_cast<int64_t>(kKvHeads) * kBlockTokens * kDim;
  __shared__ float tops[kCrossWarps], totals[kCrossWarps];
  __shared__ float parts[kCrossWarps][kDim];

  GridDone();
  GridWait();
  const int t = blockIdx.y, head = blockIdx.x;
  if (t >= RowCount<kCountTokens>(info, kMaxRows)) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float none = -__int_as_float(0x7f800000);
  const int slot = slots[t];
  const int keys = min(sources[2 * slot + 1], kBlockTokens);
  const C* key = state + 2 * kHalf * sources[2 * slot] +
                 static_cast<int64_t>((kHeadOffset + head) / kGroup) *
                     kBlockTokens * kDim;
  const C* value = key + kHalf;

  float query[kMine], o[kMine] = {}, most = none, sum = 0;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int d = lane + 32 * i;
    query[i] = d < kDim ? ToFloat(q[t * kQStride + head * kDim + d]) *
                              __uint_as_float(kScaleBits)
                        : 0;
  }
  for (int first = warp * kCrossAhead; first < keys;
       first += kCrossWarps * kCrossAhead) {
    float exponent[kCrossAhead] = {}, top = most;
#pragma unroll
    for (int j = 0; j < kCrossAhead; ++j) {
      if (first + j >= keys) continue;
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const int d = lane + 32 * i;
        if (kDim % 32 != 0 && d >= kDim) continue;
        exponent[j] +=
            query[i] * ToFloat(key[static_cast<int64_t>(first + j) * kDim + d]);
      }
    }
#pragma unroll
    for (int j = 0; j < kCrossAhead; ++j) {
      const float x = WarpSum(exponent[j]);
      exponent[j] = first + j < keys ? x : none;
      top = fmaxf(top, exponent[j]);
    }
    const float shrink = exp2f(most - top);  // 0 at first
    most = top;
    sum *= shrink;
#pragma unroll
    for (int i = 0; i < kMine; ++i) o[i] *= shrink;
#pragma unroll
    for (int j = 0; j < kCrossAhead; ++j) {
      if (first + j >= keys) continue;
      const float weight = exp2f(exponent[j] - top);
      sum += weight;
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const int d = lane + 32 * i;
        if (kDim % 32 != 0 && d >= kDim) continue;
        o[i] +=
            weight * ToFloat(value[static_cast<int64_t>(first + j) * kDim + d]);
      }
    }
  }
  if (lane == 0) tops[warp] = most, totals[warp] = sum;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int d = lane + 32 * i;
    if (d < kDim) parts[warp][d] = o[i];
  }
  __syncthreads();
  float top = none;
  for (int w = 0; w < kCrossWarps; ++w) top = fmaxf(top, tops[w]);
  for (int d = threadIdx.x; d < kDim; d += kCrossThreads) {
    float total = 0, x = 0;
    for (int w = 0; w < kCrossWarps; ++w) {
      if (totals[w] == 0) continue;  // it had no key
      const float weight = exp2f(tops[w] - top);
      total += weight * totals[w];
      x += weight * parts[w][d];
    }
    y[t * kYStride + head * kDim + d] =
        FromFloat<T>(total > 0 ? x / total : 0);
  }
}
