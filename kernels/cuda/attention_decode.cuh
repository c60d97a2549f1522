// One token of each sequence: rotates q and k, appends k and v, attends over
// the keys. A block takes one part of the keys of one KV head, for up to 16
// query heads that read it.
//
// The token's own key and value never come back through the cache: the block of
// the last part, the shortest, holds them in shared memory and adds them to its
// sums itself. Keys and values of earlier tokens are asked for before the
// kernel before this one has ended (base.cuh says why that is allowed).
#pragma once

#include "attention_decode_join.cuh"
#include "attention_decode_ring.cuh"

// What is on its way waits in shared memory or in registers.
template <typename T, typename Heads, typename Keys, typename Plan,
          int kQStride, bool kRing = (Plan::ring > 0)>
struct DecodeWay {
  using type = DecodeLoop<T, Heads, Keys, Plan, kQStride>;
};
template <typename T, typename Heads, typename Keys, typename Plan,
          int kQStride>
struct DecodeWay<T, Heads, Keys, Plan, kQStride, true> {
  using type = DecodeRing<T, Heads, Keys, Plan, kQStride>;
};

// Grid: kv_heads * passes, tokens, kMost parts: parts that a short sequence
// lacks come last. Blocks of a cluster are neighbours along z. slopes: of the
// query heads, where Keys ask for them.
template <typename T, typename Heads, typename Keys, typename Rotary,
          typename Rows, typename Plan>
__device__ __forceinline__ void DecodeBlock(
    const StepInfo* info, const T* q, const T* k, const T* v,
    const int* positions, const int* slots, const int* blocks,
    const float* freqs, T* state, float* scratch, uint32_t* sync,
    const float* slopes, T* out) {
  constexpr int kDim = Heads::dim, kRows = Plan::rows, kWarps = Plan::warps;
  constexpr int kThreads = Plan::threads, kCluster = Plan::cluster;
  constexpr int kPasses = CeilDiv(Heads::group, kRows);
  using Cache = AttentionCache<T, Heads, Keys>;
  using Join = DecodeJoin<T, Heads, Rows, Plan>;

  // Row kRows is the new key. Row strides keep the banks apart.
  constexpr int kStride = kDim + 32, kSumStride = kDim + 4;
  __shared__ __align__(16) T rotated[kRows + 1][kStride];
  __shared__ T value[kDim];  // the new one
  __shared__ float2 angles[Rotary::units];
  __shared__ float own_score[kRows];
  __shared__ __align__(16) float sums[kWarps][kRows][kSumStride];
  __shared__ float most[kWarps][kRows], total[kWarps][kRows];
  __shared__ bool last;
  static_assert(sizeof(sums) >= Plan::groups * kRows * sizeof(float),
                "weights fit");

  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int g = lane / 4, c = lane % 4;
  const int kv = blockIdx.x / kPasses;
  const int member = blockIdx.x % kPasses * kRows;  // of row 0
  const int t = blockIdx.y, part_index = blockIdx.z;

  GridDone();
#if __CUDA_ARCH__ >= 900
  if constexpr (kCluster > 1) ClusterArriveStart();
#endif
  // Rows beyond the step's are there, stale.
  const int position = LoadInput(positions + t), slot = LoadInput(slots + t);
  const int row_blocks = LoadInput(&info->blocks_per_seq);
  const int tokens = LoadInput(&info->tokens);
  const DecodePart part =
      Plan::template PartOf<Keys>(position, part_index);
  const int group = part_index / kCluster;
  const int groups = CeilDiv(part.parts, kCluster);
  if (t >= tokens || group >= groups) {
    GridWait();  // all of a chain wait
    return;
  }
  const bool own = part_index == part.parts - 1;
  const int* table = blocks + static_cast<int64_t>(slot) * row_blocks;
  typename DecodeWay<T, Heads, Keys, Plan, kStride>::type loop = {state, table,
                                                                  kv, g, c};
  if constexpr (Plan::ring > 0) {
    loop.ring = reinterpret_cast<uint4*>(DynamicShared()) +
                warp * Plan::ring * (kDim / 8) * 32;
  }
  const int token = part.begin + warp * kDecodeGroup;
  loop.Begin(token, part.end);
  for (int u = tid; u < Rotary::half; u += kThreads) {
    angles[u] = Rotary::Angle(position, freqs[u]);
  }
  __syncthreads();

  GridWait();

  // Several units at a time, as far as they lie side by side.
  constexpr int kUnits = UnitsAtOnce<Rotary, Rows>(4);
  constexpr int kRowSteps = Rotary::units / kUnits;
  for (int i = tid; i < (kRows + 1) * kRowSteps; i += kThreads) {
    const int row = i / kRowSteps, u = i % kRowSteps * kUnits;
    if (row == kRows && !own) break;
    RotatedUnits<Rotary, T, kUnits> units;
    if (row == kRows) {
      units.Load(Rows::K(k, t) + kv * kDim, u);
    } else if (Heads::Has(kv, member + row)) {
      units.Load(Rows::Q(q, t) + Heads::Head(kv, member + row) * kDim, u);
    }
    units.Store(rotated[row], u, angles + u);
  }
  if (own) {
    for (int d = tid; d < kDim; d += kThreads) {
      value[d] = Rows::V(v, t)[kv * kDim + d];
    }
  }
  __syncthreads();

  if (own) {
    if (member == 0) {
      const int at = position % Keys::block_tokens;
      const int own_block = loop.Block(position);
      T* key = Cache::KeysOf(state, own_block, kv) + at * kDim;
      T* column = Cache::ValuesOf(state, own_block, kv) + at;
      for (int d = tid; d < kDim; d += kThreads) {
        key[d] = rotated[kRows][d];
        column[d * Keys::block_tokens] = value[d];
      }
    }
    for (int row = warp; row < kRows; row += kWarps) {
      float dot = 0;
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) {
        const int d = lane + 32 * i;
        dot += ToFloat(rotated[row][d]) * ToFloat(rotated[kRows][d]);
      }
      dot = WarpSum(dot);
      if (lane == 0) own_score[row] = Keys::OwnExponent(dot);
    }
  }

  typename Keys::Row rows[2];
  if constexpr (Keys::alibi) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = g + 8 * h;
      const bool valid = row < kRows && Heads::Has(kv, member + row);
      rows[h] = Keys::RowOf(
          valid ? slopes[Heads::Head(kv, member + row)] : 0, position);
    }
  }
  DecodeState<T, kDim, kRows> mine;
  mine.Clear();
  loop.Run(&rotated[0][0], part, token, rows, mine);
#pragma unroll
  for (int h = 0; h < mine.kHalves; ++h) {
    float sum = mine.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (g + 8 * h < kRows) {
      most[warp][g + 8 * h] = mine.most[h];
      total[warp][g + 8 * h] = sum;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = 8 * h + 2 * c + j % 2;
      if (row >= kRows) continue;
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        sums[warp][row][16 * i + 8 * (j / 2) + g] = mine.o[h][i][j];
      }
    }
  }
  __syncthreads();

  const Join join = {kv,
                     member,
                     static_cast<int>(t * gridDim.x + blockIdx.x),
                     part_index % kCluster,
                     group,
                     groups,
                     scratch,
                     Rows::Out(out, t)};
  // The warps' sums become the block's.
  const auto joined = [&](int quad) {
    const int row = quad / Join::kRowQuads, d = 4 * (quad % Join::kRowQuads);
    DecodeSum s = DecodeSum::None();
    if (own) s.most = own_score[row];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) s.most = fmaxf(s.most, most[w][row]);
    if (own) {
      s.Add(Exp2(own_score[row] - s.most),
            make_float4(ToFloat(value[d]), ToFloat(value[d + 1]),
                        ToFloat(value[d + 2]), ToFloat(value[d + 3])),
            1);
    }
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      s.Add(Exp2(most[w][row] - s.most),
            *reinterpret_cast<const float4*>(&sums[w][row][d]), total[w][row]);
    }
    return s;
  };
  if constexpr (kCluster == 1) {
    for (int i = tid; i < Join::kQuads; i += kThreads) {
      join.Deliver(i, joined(i));
    }
  }
#if __CUDA_ARCH__ >= 900
  if constexpr (kCluster > 1) {
    __shared__ __align__(16) typename Join::Inbox inbox;
    ClusterWait();  // the others run
    if (part_index < part.parts) {
      for (int i = tid; i < Join::kQuads; i += kThreads) {
        join.Send(inbox, i, joined(i));
      }
    }
    ClusterArrive();
    ClusterWait();
    join.Receive(inbox, part.parts - group * kCluster);
  }
#endif
  if (groups == 1) return;

  __threadfence();
  __syncthreads();
  if (tid == 0) {
    uint32_t* ended = sync + join.head * kCluster + join.rank;
    last = atomicAdd(ended, 1u) + 1 == static_cast<uint32_t>(groups);
    if (last) *ended = 0;  // as the next step finds it
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  join.JoinGroups(&sums[0][0][0]);
}

template <typename T, typename Heads, typename Keys, typename Rotary,
          typename Rows, typename Plan>
__global__ void __launch_bounds__(Plan::threads)
    AttentionDecode(const StepInfo* info, const T* q, const T* k, const T* v,
                    const int* positions, const int* slots, const int* blocks,
                    const float* freqs, T* state, float* scratch,
                    uint32_t* sync, T* out) {
  static_assert(Plan::cluster == 1, "blocks know nothing of each other");
  DecodeBlock<T, Heads, Keys, Rotary, Rows, Plan>(
      info, q, k, v, positions, slots, blocks, freqs, state, scratch, sync,
      nullptr, out);
}
template <typename T, typename Heads, typename Keys, typename Rotary,
          typename Rows, typename Plan>
__global__ void __launch_bounds__(Plan::threads)
    AttentionDecodeSlopes(const StepInfo* info, const T* q, const T* k,
                          const T* v, const int* positions, const int* slots,
                          const int* blocks, const float* freqs, T* state,
                          float* scratch, uint32_t* sync, const float* slopes,
                          T* out) {
  static_assert(Plan::cluster == 1, "blocks know nothing of each other");
  DecodeBlock<T, Heads, Keys, Rotary, Rows, Plan>(
      info, q, k, v, positions, slots, blocks, freqs, state, scratch, sync,
      slopes, out);
}

#if __CUDA_ARCH__ >= 900
// The same in clusters.
template <typename T, typename Heads, typename Keys, typename Rotary,
          typename Rows, typename Plan>
__global__ void __cluster_dims__(1, 1, Plan::cluster)
    __launch_bounds__(Plan::threads)
    AttentionDecodeCluster(const StepInfo* info, const T* q, const T* k,
                           const T* v, const int* positions, const int* slots,
                           const int* blocks, const float* freqs, T* state,
                           float* scratch, uint32_t* sync, T* out) {
  DecodeBlock<T, Heads, Keys, Rotary, Rows, Plan>(
      info, q, k, v, positions, slots, blocks, freqs, state, scratch, sync,
      nullptr, out);
}
template <typename T, typename Heads, typename Keys, typename Rotary,
          typename Rows, typename Plan>
__global__ void __cluster_dims__(1, 1, Plan::cluster)
    __launch_bounds__(Plan::threads)
    AttentionDecodeClusterSlopes(
        const StepInfo* info, const T* q, const T* k, const T* v,
        const int* positions, const int* slots, const int* blocks,
        const float* freqs, T* state, float* scratch, uint32_t* sync,
        const float* slopes, T* out) {
  DecodeBlock<T, Heads, Keys, Rotary, Rows, Plan>(
      info, q, k, v, positions, slots, blocks, freqs, state, scratch, sync,
      slopes, out);
}
#endif
