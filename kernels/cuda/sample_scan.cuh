// Ordered logits, their weights, and sums over a block in a fixed order.
#pragma once
#include "base.cuh"

constexpr int kSampleThreads = 1024;
constexpr int kSampleWarps = kSampleThreads / 32;

// Unsigned order of the result is the order of the numbers; both zeros are one.
__device__ __forceinline__ uint32_t OrderedBits(float x) {
  const uint32_t bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float FromOrderedBits(uint32_t ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu
                                               : ~ordered);
}

// exp((logit - top) / temperature): 1 for the likeliest.
struct SampleWeight {
  double top, inverse;
  __device__ __forceinline__ SampleWeight(float top_logit, float temperature)
      : top(top_logit), inverse(1.0 / static_cast<double>(temperature)) {}
  __device__ __forceinline__ double operator()(float logit) const {
    return exp((static_cast<double>(logit) - top) * inverse);
  }
};

struct SampleScan {
  double warps[kSampleWarps];
  double sum;
  int index;
};

// The sum of x over the threads before this one; *total is that of all. All
// threads of the block call it.
template <typename T>
__device__ T BlockScan(T x, T* total, SampleScan* scan) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T* warps = reinterpret_cast<T*>(scan->warps);
  const auto inclusive = [lane](T y) {
    for (int d = 1; d < 32; d *= 2) {
      const T below = __shfl_up_sync(~0u, y, d);
      if (lane >= d) y += below;
    }
    return y;
  };
  const T here = inclusive(x);
  T before = __shfl_up_sync(~0u, here, 1);
  if (lane == 0) before = 0;
  __syncthreads();  // `warps` of the scan before this one has been read
  if (lane == 31) warps[warp] = here;
  __syncthreads();
  const T sums = inclusive(warps[lane]);
  *total = __shfl_sync(~0u, sums, 31);
  const T warps_before = __shfl_sync(~0u, sums, (warp + 31) % 32);
  return warp == 0 ? before : warps_before + before;
}

struct SampleHit {
  int index;   // -1: none
  double sum;  // up to and with the hit; of all where there is none
};

// The first index of 0..n at which start + weight_at(0) + weight_at(1) + ...
// reaches the threshold; with kAbove exceeds it, where its own weight is
// positive. All threads of the block call it, and all get the same bits.
template <bool kAbove, typename WeightAt>
__device__ SampleHit FirstReaching(int n, double start,
                                   const WeightAt& weight_at, double threshold,
                                   SampleScan* scan) {
  constexpr int kEach = 4, kNone = 0x7fffffff;
  for (int tile = 0; tile < n; tile += kSampleThreads * kEach) {
    const int begin = tile + threadIdx.x * kEach;
    double w[kEach], own = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      w[j] = begin + j < n ? weight_at(begin + j) : 0.0;
      own += w[j];
    }
    double total;
    double sum = start + BlockScan(own, &total, scan);
    int hit = kNone;
    double hit_sum = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      sum += w[j];
      const bool reached =
          kAbove ? sum > threshold && w[j] > 0 : sum >= threshold;
      if (hit == kNone && begin + j < n && reached) {
        hit = begin + j;
        hit_sum = sum;
      }
    }
    if (threadIdx.x == 0) scan->index = kNone;
    __syncthreads();
    if (hit != kNone) atomicMin(&scan->index, hit);
    __syncthreads();
    const int first = scan->index;
    if (hit == first && hit != kNone) scan->sum = hit_sum;
    __syncthreads();
    if (first != kNone) {
      const SampleHit found = {first, scan->sum};
      __syncthreads();
      return found;
    }
    start += total;
  }
  return {-1, start};
}

// The last index of 0..n whose weight is positive, or -1.
template <typename WeightAt>
__device__ int LastPositive(int n, const WeightAt& weight_at,
                            SampleScan* scan) {
  int last = -1;
  for (int i = threadIdx.x; i < n; i += kSampleThreads) {
    if (weight_at(i) > 0) last = i;
  }
  __syncthreads();
  if (threadIdx.x == 0) scan->index = -1;
  __syncthreads();
  atomicMax(&scan->index, last);
  __syncthreads();
  last = scan->index;
  __syncthreads();
  return last;
}
