// Draws a token of each row of logits, as SampleToken of runtime/engine.h does.
#pragma once
#include "sample_cut.cuh"

__device__ __forceinline__ double PhiloxUniform(uint64_t seed,
                                                uint64_t position) {
  uint32_t c0 = static_cast<uint32_t>(position);
  uint32_t c1 = static_cast<uint32_t>(position >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    const uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0, c1 = l1;
    c2 = h0 ^ c3 ^ k1, c3 = l0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  const uint64_t bits = (static_cast<uint64_t>(c0) << 32 | c1) >> 11;
  return static_cast<double>(bits) * 1.1102230246251565e-16;  // 2^-53
}

// What a block found in its part of a row.
struct SamplePartial {
  uint64_t best;  // a key of BestKey, the largest; kNanKey where there is NaN
  double mass;    // sum of exp((logit - the part's largest) * inverse)
  uint64_t unused[2];
};

constexpr uint64_t kNanKey = ~0ull;

// Orders logits as numbers, and of equal ones the lower id first.
__device__ __forceinline__ uint64_t BestKey(float x, int id) {
  if (x != x) return kNanKey;
  return static_cast<uint64_t>(OrderedBits(x)) << 32 |
         static_cast<uint32_t>(~id);
}
__device__ __forceinline__ float LogitOfKey(uint64_t key) {
  return FromOrderedBits(static_cast<uint32_t>(key >> 32));
}
__device__ __forceinline__ int IdOfKey(uint64_t key) {
  return static_cast<int>(~static_cast<uint32_t>(key));
}
// 0: an empty part. Neither are NaN and the infinities.
__device__ __forceinline__ bool IsFinite(uint64_t key) {
  return key != 0 && key != kNanKey && fabsf(LogitOfKey(key)) < __int_as_float(
                                                                  0x7f800000);
}

// The largest key of the block, in all of its threads.
__device__ __forceinline__ uint64_t BlockBest(uint64_t key, uint64_t* warps) {
  const auto warp_best = [](uint64_t k) {
    for (int d = 16; d > 0; d >>= 1) {
      const uint64_t other = __shfl_xor_sync(~0u, k, d);
      k = other > k ? other : k;
    }
    return k;
  };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  key = warp_best(key);
  if (lane == 0) warps[warp] = key;
  __syncthreads();
  key = warp_best(warps[lane]);  // kSampleThreads / 32 == 32 warps
  __syncthreads();
  return key;
}

struct SampleShared {
  union {
    uint64_t keys[kSampleWarps];
    SampleCut cut;
  };
  double mass[32];    // of each part, in units of the row's largest weight
  bool last;
};

// Without a cut: the first id, in order, at which the sum of weights exceeds
// uniform * total. Only the part in which that happens is read again.
template <int kVocab, int kParts, int kChunk>
__device__ int DrawUncut(const float* logits, const double* part_mass,
                         double total, int best, const SampleWeight& weight,
                         double uniform, SampleScan* scan) {
  const double target = uniform * total;
  // The part, and what came before it; the last with any mass where rounding
  // keeps the sum at or below the target.
  double before = 0, sum = 0;
  int part = best / kChunk;
#pragma unroll 1
  for (int p = 0; p < kParts; ++p) {
    if (part_mass[p] <= 0) continue;
    part = p, before = sum;
    sum += part_mass[p];
    if (sum > target) break;
  }
  const int begin = part * kChunk, n = min(kVocab - begin, kChunk);
  const auto weight_at = [&](int i) { return weight(logits[begin + i]); };
  int at = FirstReaching<true>(n, before, weight_at, target, scan).index;
  if (at < 0) at = LastPositive(n, weight_at, scan);
  return at < 0 ? best : begin + at;
}

// Grid: parts x rows; the last block of a row to arrive draws. scratch:
// SamplePartial [kMaxRows][kParts], then int32 [kMaxRows][2][kVocab]. sync: a
// word in two counts a row's blocks, and is zero again at the end. kChunk: ids
// of a part, a multiple of 4; kWide: rows start at multiples of 16 bytes.
template <int kVocab, int64_t kStride, int kMaxRows, int kParts, int kChunk,
          bool kWide>
__global__ void __launch_bounds__(kSampleThreads)
    Sample(const StepInfo* info, const float* logits,
           const SamplerRecord* samplers, void* scratch, uint32_t* sync,
           int* sampled) {
  __shared__ SampleShared shared;
  GridDone();
  GridWait();
  const int row = blockIdx.y, part = blockIdx.x;
  if (row >= min(info->sampled_rows, kMaxRows)) return;
  const SamplerRecord sampler = samplers[row];
  logits += row * kStride;
  SamplePartial* partials =
      static_cast<SamplePartial*>(scratch) + row * kParts;

  const int begin = part * kChunk, end = min(kVocab, begin + kChunk);
  uint64_t best = 0;
  const auto see = [&](float x, int id) {
    const uint64_t key = BestKey(x, id);
    best = key > best ? key : best;
  };
  int i = begin + threadIdx.x * (kWide ? 4 : 1);
  if constexpr (kWide) {
    for (; i + 4 <= end; i += kSampleThreads * 4) {
      const float4 v = *reinterpret_cast<const float4*>(logits + i);
      see(v.x, i), see(v.y, i + 1), see(v.z, i + 2), see(v.w, i + 3);
    }
    // At most one thread has a rest of 1 to 3.
    for (; i < end; ++i) see(logits[i], i);
  } else {
    for (; i < end; i += kSampleThreads) see(logits[i], i);
  }
  best = BlockBest(best, shared.keys);

  const bool cut_k = sampler.top_k > 0 && sampler.top_k < kVocab;
  const bool greedy = !(sampler.temperature > 0);
  double mass = 0;
  if (!greedy && !cut_k && IsFinite(best)) {
    const SampleWeight weight(LogitOfKey(best), sampler.temperature);
    for (int id = begin + threadIdx.x; id < end; id += kSampleThreads) {
      mass += weight(logits[id]);
    }
    double all;
    BlockScan(mass, &all, &shared.cut.scan);
    mass = all;
  }
  if (threadIdx.x == 0) {
    partials[part].best = best;
    partials[part].mass = mass;
    __threadfence();
    shared.last = atomicAdd(&sync[2 * row], 1u) == kParts - 1;
  }
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  if (threadIdx.x == 0) sync[2 * row] = 0;
  // Past L1, which may hold older values.
  const uint64_t own =
      threadIdx.x < kParts ? __ldcg(&partials[threadIdx.x].best) : 0;
  best = BlockBest(own, shared.keys);
  int id = IdOfKey(best);
  if (!IsFinite(best)) {
    id = -1;  // kNoSampledId
  } else if (!greedy) {
    const SampleWeight weight(LogitOfKey(best), sampler.temperature);
    const double uniform = PhiloxUniform(sampler.seed, sampler.position);
    if (threadIdx.x < kParts) {
      shared.mass[threadIdx.x] =
          IsFinite(own)
              ? __ldcg(&partials[threadIdx.x].mass) * weight(LogitOfKey(own))
              : 0.0;
    }
    __syncthreads();
    double total = 0;
#pragma unroll 1
    for (int p = 0; p < kParts; ++p) total += shared.mass[p];
    if (!cut_k && !(sampler.top_p < 1.0f) && !(sampler.min_p > 0)) {
      id = DrawUncut<kVocab, kParts, kChunk>(logits, shared.mass, total, id,
                                             weight, uniform, &shared.cut.scan);
    } else {
      int* ids = reinterpret_cast<int*>(static_cast<SamplePartial*>(scratch) +
                                        kMaxRows * kParts) +
                 static_cast<int64_t>(row) * 2 * kVocab;
      id = DrawCut(logits, kVocab, cut_k ? sampler.top_k : 0, sampler.top_p,
                   sampler.min_p, weight, total, uniform, ids, ids + kVocab,
                   &shared.cut);
    }
  }
  if (threadIdx.x == 0) sampled[row] = id;
}
