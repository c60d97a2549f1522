// Draws from the likeliest tokens of a row: the top_k, or the smallest set of
// them with a share of top_p of the whole, or those with min_p of the largest
// weight; whichever leaves fewest.
//
// One block. It counts logits by distance from the largest, gathers as many of
// the likeliest as the cut can need, sorts them, and walks along their sums.
#pragma once
#include "sample_scan.cuh"

constexpr int kSampleBins = 2048;
constexpr float kSampleBinsPerNat = 32.0f;
constexpr int kSortDigits = 256;

struct SampleCut {
  union {
    uint32_t bins[kSampleBins];
    uint32_t warp_counts[kSampleWarps][kSortDigits];
  };
  uint32_t base[kSortDigits];
  SampleScan scan;
};

// Grows with the distance from the largest logit, equal for equal logits.
__device__ __forceinline__ int SampleBin(float logit,
                                         const SampleWeight& weight) {
  const float distance = static_cast<float>(weight.top) - logit;
  const float scale = static_cast<float>(weight.inverse) * kSampleBinsPerNat;
  // fminf also makes 0 * infinity, of a tiny temperature, the last bin.
  return static_cast<int>(fminf(distance * scale, kSampleBins - 1.0f));
}

// to[0, n) becomes from[0, n) by one digit of the logits, larger ones first;
// what is equal keeps its order.
__device__ __forceinline__ int SortDigit(const float* logits, int id,
                                         int shift) {
  return (~OrderedBits(logits[id]) >> shift) & (kSortDigits - 1);
}
__device__ void SortByDigit(const float* logits, const int* from, int* to,
                            int n, int shift, SampleCut* s) {
  constexpr int kEach = 4, kTile = kSampleThreads * kEach;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool owns_digit = threadIdx.x < kSortDigits;
  if (owns_digit) s->base[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += kSampleThreads) {
    atomicAdd(&s->base[SortDigit(logits, from[i], shift)], 1u);
  }
  __syncthreads();
  uint32_t all;
  const uint32_t before = BlockScan<uint32_t>(
      owns_digit ? s->base[threadIdx.x] : 0, &all, &s->scan);
  if (owns_digit) s->base[threadIdx.x] = before;

  for (int tile = 0; tile < n; tile += kTile) {
    for (int i = threadIdx.x; i < kSampleWarps * kSortDigits;
         i += kSampleThreads) {
      s->warp_counts[i / kSortDigits][i % kSortDigits] = 0;
    }
    __syncthreads();
    // A warp's items follow each other, 32 at a time.
    int id[kEach], digit[kEach];
    uint32_t rank[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = tile + (warp * kEach + k) * 32 + lane;
      const bool there = i < n;
      id[k] = there ? from[i] : 0;
      digit[k] = there ? SortDigit(logits, id[k], shift) : -1;
      const uint32_t same = __match_any_sync(~0u, digit[k]);
      const uint32_t below = same & ((1u << lane) - 1);
      uint32_t* count = &s->warp_counts[warp][max(digit[k], 0)];
      const uint32_t earlier = *count;
      rank[k] = earlier + __popc(below);
      __syncwarp();
      if (there && below == 0) *count = earlier + __popc(same);
      __syncwarp();
    }
    __syncthreads();
    if (owns_digit) {
      uint32_t next = s->base[threadIdx.x];
#pragma unroll
      for (int w = 0; w < kSampleWarps; ++w) {
        const uint32_t count = s->warp_counts[w][threadIdx.x];
        s->warp_counts[w][threadIdx.x] = next;
        next += count;
      }
      s->base[threadIdx.x] = next;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (digit[k] >= 0) to[s->warp_counts[warp][digit[k]] + rank[k]] = id[k];
    }
    __syncthreads();
  }
}

// The ids whose bin is below `limit`, the larger logit first, of equal ones the
// lower id. Returns how many. `other` has room for as many.
__device__ int SortLikeliest(const float* logits, int vocab, int limit,
                             const SampleWeight& weight, int* ids, int* other,
                             SampleCut* s) {
  constexpr int kEach = 4;
  int n = 0;
  for (int tile = 0; tile < vocab; tile += kSampleThreads * kEach) {
    const int begin = tile + threadIdx.x * kEach;
    bool take[kEach];
    int count = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      take[j] = begin + j < vocab && SampleBin(logits[begin + j], weight) < limit;
      count += take[j];
    }
    int total;
    int at = n + BlockScan(count, &total, &s->scan);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (take[j]) ids[at++] = begin + j;
    }
    n += total;
  }
  __syncthreads();
  for (int shift = 0; shift < 32; shift += 16) {
    SortByDigit(logits, ids, other, n, shift, s);
    SortByDigit(logits, other, ids, n, shift + 8, s);
  }
  return n;
}

// Bins below it hold every weight of min_p and above.
__device__ __forceinline__ int BinsOfMinP(float min_p) {
  if (!(min_p > 0)) return kSampleBins;
  // Two more: bins are computed with rounding.
  const float bins = -logf(min_p) * kSampleBinsPerNat + 2.0f;
  return static_cast<int>(fminf(bins, kSampleBins - 1.0f)) + 1;
}

// top_k: 0, or below vocab. total: the sum of all weights; unused with top_k.
// ids, other: room for vocab ids each. All threads get the same id.
__device__ int DrawCut(const float* logits, int vocab, int top_k, float top_p,
                       float min_p, const SampleWeight& weight, double total,
                       double uniform, int* ids, int* other, SampleCut* s) {
  for (int b = threadIdx.x; b < kSampleBins; b += kSampleThreads) {
    s->bins[b] = 0;
  }
  __syncthreads();
#pragma unroll 4
  for (int id = threadIdx.x; id < vocab; id += kSampleThreads) {
    atomicAdd(&s->bins[SampleBin(logits[id], weight)], 1u);
  }
  __syncthreads();

  // So many bins hold what is wanted: for certain with top_k; by an estimate with
  // a margin with top_p, and where that is too low all are taken.
  SampleHit bin = {-1, 0};
  if (top_k > 0) {
    bin = FirstReaching<false>(
        kSampleBins, 0.0,
        [&](int b) { return static_cast<double>(s->bins[b]); }, top_k,
        &s->scan);
  } else if (top_p < 1.0f) {
    bin = FirstReaching<false>(
        kSampleBins, 0.0,
        [&](int b) {
          return s->bins[b] * exp((b + 0.5) * (-1.0 / kSampleBinsPerNat));
        },
        1.002 * top_p * total, &s->scan);
  }
  // What min_p leaves out counts for no share but top_k's.
  const int most = top_k > 0 ? kSampleBins : BinsOfMinP(min_p);
  int limit = min(most, bin.index < 0 ? kSampleBins : bin.index + 1);

  const auto weight_at = [&](int i) { return weight(logits[ids[i]]); };
  int size;
  double mass;
  while (true) {
    size = SortLikeliest(logits, vocab, limit, weight, ids, other, s);
    if (top_k > 0) {
      size = top_k;
      total = FirstReaching<false>(size, 0.0, weight_at,
                                   __longlong_as_double(0x7ff0000000000000),
                                   &s->scan)
                  .sum;
    }
    mass = total;
    if (!(top_p < 1.0f)) break;
    const SampleHit end = FirstReaching<false>(
        size, 0.0, weight_at, static_cast<double>(top_p) * total, &s->scan);
    mass = end.sum;
    if (end.index >= 0) {
      size = end.index + 1;
      break;
    }
    if (top_k > 0 || limit == most) break;
    limit = most;
  }
  if (min_p > 0) {
    const SampleHit low = FirstReaching<false>(
        size, 0.0, [&](int i) { return weight_at(i) < min_p ? 1.0 : 0.0; }, 1.0,
        &s->scan);
    if (low.index >= 0) size = max(1, low.index);
    mass = FirstReaching<false>(size, 0.0, weight_at,
                                __longlong_as_double(0x7ff0000000000000),
                                &s->scan)
               .sum;
  }
  const SampleHit drawn =
      FirstReaching<true>(size, 0.0, weight_at, uniform * mass, &s->scan);
  return ids[drawn.index < 0 ? 0 : drawn.index];
}
