// How the blocks of AttentionDecode become one answer: parts of a cluster join
// through shared memory, each block a slice of the elements; groups of blocks
// through scratch, by the one that ends last.
#pragma once

#include "attention_decode_loop.cuh"

// Sums of weighted values, not divided yet, and their weights' sum; weights are
// relative to 2^most.
struct DecodeSum {
  float4 y;
  float most, total;

  __device__ __forceinline__ static DecodeSum None() {
    return {make_float4(0, 0, 0, 0), MinusInfinity(), 0};
  }
  __device__ __forceinline__ void Add(float weight, float4 x, float sum) {
    total += weight * sum;
    y.x += weight * x.x, y.y += weight * x.y;
    y.z += weight * x.z, y.w += weight * x.w;
  }
};

// Quad q of a KV head's rows is elements 4 * (q % (dim / 4)) .. + 3 of row
// q / (dim / 4). A cluster's block `rank` joins kSlice quads from rank * kSlice
// on. Scratch of a group's block: float4[kSlice] sums, then float4[rows] with
// the maximum and the sum of weights.
template <typename T, typename Heads, typename Rows, typename Plan>
struct DecodeJoin {
  static constexpr int kDim = Heads::dim, kRowQuads = kDim / 4;
  static constexpr int kQuads = Plan::rows * kRowQuads;
  static constexpr int kSlice = CeilDiv(kQuads, Plan::cluster);
  static constexpr int64_t kPart = 4 * (kSlice + Plan::rows);

  struct Inbox {
    float4 sums[Plan::cluster][kSlice];
    float2 stats[Plan::cluster][Plan::rows];  // maximum, sum of weights
  };

  int kv, member;  // the KV head, and its member that is row 0
  int head;        // counts KV heads (and passes) of all tokens
  int rank, group, groups;
  float* scratch;
  T* out;  // the token's row

  __device__ __forceinline__ float* Part(int g) const {
    return scratch +
           ((static_cast<int64_t>(head) * Plan::cluster + rank) *
                Plan::groups + g) * kPart;
  }
  __device__ __forceinline__ void Write(int q, float4 y, float factor) const {
    const int m = member + q / kRowQuads, d = 4 * (q % kRowQuads);
    if (!Heads::Has(kv, m)) return;
    *reinterpret_cast<uint2*>(out + Heads::Head(kv, m) * kDim + d) =
        make_uint2(Pack2<T>(y.x * factor, y.y * factor),
                   Pack2<T>(y.z * factor, y.w * factor));
  }
  // What this group knows of quad q, of this block's slice.
  __device__ __forceinline__ void Deliver(int q, const DecodeSum& s) const {
    if (groups == 1) {
      Write(q, s.y, __fdividef(1, s.total));
      return;
    }
    float4* part = reinterpret_cast<float4*>(Part(group));
    part[q - rank * kSlice] = s.y;
    // Every slice with a quad of the row, not only that with its first.
    if (q % kRowQuads == 0 || q == rank * kSlice) {
      part[kSlice + q / kRowQuads] = make_float4(s.most, s.total, 0, 0);
    }
  }

#if __CUDA_ARCH__ >= 900
  // To the block that joins quad q, and each row's numbers to all.
  __device__ __forceinline__ void Send(Inbox& inbox, int q,
                                       const DecodeSum& s) const {
    const int to = q / kSlice;
    StoreRemote(&inbox.sums[rank][q % kSlice], to, s.y);
    const int row = q / kRowQuads;
    for (int i = q % kRowQuads; i < Plan::cluster; i += kRowQuads) {
      StoreRemote(&inbox.stats[rank][row], i, make_float2(s.most, s.total));
    }
  }
  // parts: of this cluster. After a barrier.
  __device__ __forceinline__ void Receive(const Inbox& inbox, int parts) const {
    for (int i = threadIdx.x; i < kSlice; i += Plan::threads) {
      const int q = rank * kSlice + i, row = q / kRowQuads;
      if (q >= kQuads) break;
      DecodeSum s = DecodeSum::None();
#pragma unroll
      for (int p = 0; p < Plan::cluster; ++p) {
        if (p < parts) s.most = fmaxf(s.most, inbox.stats[p][row].x);
      }
#pragma unroll
      for (int p = 0; p < Plan::cluster; ++p) {
        if (p >= parts) continue;
        const float2 stats = inbox.stats[p][row];
        s.Add(Exp2(stats.x - s.most), inbox.sums[p][i], stats.y);
      }
      Deliver(q, s);
    }
  }
#endif

  // This block's slice of all groups, whose parts are in scratch. weights:
  // float[Plan::groups][rows] in shared memory.
  __device__ __forceinline__ void JoinGroups(float* weights) const {
    constexpr int kTurns = CeilDiv(Plan::groups, 32);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = rank * kSlice;
    const int end = min(kQuads, first + kSlice);
    for (int row = first / kRowQuads + warp; row * kRowQuads < end;
         row += Plan::warps) {
      float most = MinusInfinity(), sum = 0;
      float2 mine[kTurns];
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const int g = lane + 32 * i;
        mine[i] = make_float2(MinusInfinity(), 0);
        if (g < groups) {
          const float4 x = LoadFresh(Part(g) + 4 * (kSlice + row));
          mine[i] = make_float2(x.x, x.y);
        }
        most = fmaxf(most, mine[i].x);
      }
      most = WarpMax(most);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        mine[i].x = Exp2(mine[i].x - most);
        sum += mine[i].x * mine[i].y;
      }
      sum = WarpSum(sum);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const int g = lane + 32 * i;
        if (g < groups) {
          weights[g * Plan::rows + row] = __fdividef(mine[i].x, sum);
        }
      }
    }
    __syncthreads();
    for (int q = first + threadIdx.x; q < end; q += Plan::threads) {
      DecodeSum s = DecodeSum::None();
#pragma unroll 8
      for (int g = 0; g < groups; ++g) {
        s.Add(weights[g * Plan::rows + q / kRowQuads],
              LoadFresh(Part(g) + 4 * (q - first)), 0);
      }
      Write(q, s.y, 1);
    }
  }
};
