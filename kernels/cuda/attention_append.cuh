// Rotates q and k of any tokens and appends k and v to the caches: what comes
// before the attention of a tile.
#pragma once

#include "attention_common.cuh"

constexpr int kAppendTokens = 32, kAppendThreads = 256;
constexpr int kAppendHeads = 4;    // q and k heads of a block
constexpr int kAppendColumns = 64;  // of v that pass shared memory at a time

template <typename T, int n>
struct __align__(n * sizeof(T)) AppendVector {
  T x[n];
};

// Units u .. u + kUnits - 1 of a head.
template <typename Rotary, int kUnits, typename T>
__device__ __forceinline__ void StorePairs(const float2 (&y)[kUnits], int u,
                                           T* head) {
  AppendVector<T, kUnits> a, b;
#pragma unroll
  for (int j = 0; j < kUnits; ++j) {
    a.x[j] = FromFloat<T>(y[j].x);
    b.x[j] = FromFloat<T>(y[j].y);
  }
  using Wide = AppendVector<T, kUnits>;
  *reinterpret_cast<Wide*>(head + Rotary::First(u)) = a;
  if (u < Rotary::half) {
    *reinterpret_cast<Wide*>(head + Rotary::Second(u)) = b;
  }
}

// Grid: tiles of kAppendTokens tokens; groups of kAppendHeads q and k heads,
// then the v heads one by one. out: rotated q, rows of heads * dim.
template <typename T, typename C, typename Heads, typename Keys,
          typename Rotary, typename Rows>
__global__ void __launch_bounds__(kAppendThreads)
    AttentionAppend(const StepInfo* info, const T* q, const T* k, const T* v,
                    const int* positions, const int* slots, const int* blocks,
                    const float* freqs, C* state, T* out) {
  constexpr int kDim = Heads::dim;
  constexpr int kTurned = Heads::heads + Heads::kv_heads;
  constexpr int kGroups = CeilDiv(kTurned, kAppendHeads);
  // Angles are shared by the heads of a block, unless heads are so large that
  // they would not fit.
  constexpr bool kTable = Rotary::half <= 128;
  using Cache = AttentionCache<C, Heads, Keys>;

  __shared__ int position[kAppendTokens], block[kAppendTokens];
  __shared__ float2 angles[kAppendTokens][kTable ? Rotary::half + 1 : 1];
  __shared__ C values[kAppendTokens][kAppendColumns + 1];

  GridDone();
  GridWait();
  const int first = blockIdx.x * kAppendTokens;
  const int tokens = min(kAppendTokens, info->tokens - first);
  if (tokens <= 0) return;
  const int tid = threadIdx.x;
  if (tid < tokens) {
    const int p = positions[first + tid];
    position[tid] = p;
    block[tid] = blocks[static_cast<int64_t>(slots[first + tid]) *
                            info->blocks_per_seq +
                        p / Keys::block_tokens];
  }
  __syncthreads();

  if (blockIdx.y >= kGroups) {
    // Rows of v are read along the head, written along the tokens.
    const int kv = blockIdx.y - kGroups;
    for (int begin = 0; begin < kDim; begin += kAppendColumns) {
      const int columns = min(kAppendColumns, kDim - begin);
      for (int i = tid; i < tokens * kAppendColumns; i += kAppendThreads) {
        const int t = i / kAppendColumns, d = i % kAppendColumns;
        if (d >= columns) continue;
        values[t][d] = FromFloat<C>(
            ToFloat(Rows::V(v, first + t)[kv * kDim + begin + d]));
      }
      __syncthreads();
      for (int i = tid; i < columns * kAppendTokens; i += kAppendThreads) {
        const int t = i % kAppendTokens, d = i / kAppendTokens;
        if (t >= tokens) continue;
        Cache::ValuesOf(state, block[t], kv)[(begin + d) * Keys::block_tokens +
                                             position[t] % Keys::block_tokens] =
            values[t][d];
      }
      __syncthreads();
    }
    return;
  }

  constexpr int kAngles = kTable ? Rotary::half : 0;
  for (int i = tid; i < tokens * kAngles; i += kAppendThreads) {
    const int t = i / max(kAngles, 1), u = i % max(kAngles, 1);
    angles[t][u] = Rotary::Angle(position[t], freqs[u]);
  }
  __syncthreads();
  // Several units at a time, as far as they lie side by side.
  constexpr int kUnits = Rotary::Wide(4) && Rows::Wide(4)   ? 4
                         : Rotary::Wide(2) && Rows::Wide(2) ? 2
                                                            : 1;
  constexpr int kSteps = Rotary::units / kUnits;
  using Wide = AppendVector<T, kUnits>;
  const int begin = blockIdx.y * kAppendHeads;
  const int heads = min(kAppendHeads, kTurned - begin);
  for (int i = tid; i < tokens * kAppendHeads * kSteps; i += kAppendThreads) {
    const int u = i % kSteps * kUnits;
    const int head = begin + i / kSteps % kAppendHeads;
    const int t = i / kSteps / kAppendHeads;
    if (head >= begin + heads) continue;
    const bool is_q = head < Heads::heads;
    const int kv = head - Heads::heads;
    const T* x = is_q ? Rows::Q(q, first + t) + head * kDim
                      : Rows::K(k, first + t) + kv * kDim;
    const bool turned = u < Rotary::half;
    Wide a = *reinterpret_cast<const Wide*>(x + Rotary::First(u));
    Wide b = {};
    if (turned) b = *reinterpret_cast<const Wide*>(x + Rotary::Second(u));
    float2 y[kUnits];
#pragma unroll
    for (int j = 0; j < kUnits; ++j) {
      y[j] = make_float2(ToFloat(a.x[j]), ToFloat(b.x[j]));
      if (turned) {
        y[j] = Rotate(y[j], kTable ? angles[t][u + j]
                                   : Rotary::Angle(position[t], freqs[u + j]));
      }
    }
    if (is_q) {
      StorePairs<Rotary, kUnits>(y, u, Rows::Out(out, first + t) + head * kDim);
    } else {
      StorePairs<Rotary, kUnits>(
          y, u,
          Cache::KeysOf(state, block[t], kv) +
              position[t] % Keys::block_tokens * kDim);
    }
  }
}
