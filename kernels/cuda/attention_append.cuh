// Rotates q and k of any tokens and appends k and v to the caches: what comes
// before the attention of a tile.
#pragma once

#include "attention_common.cuh"

constexpr int kAppendTokens = 32, kAppendThreads = 256;
constexpr int kAppendHeads = 4;    // q and k heads of a block
constexpr int kAppendColumns = 64;  // of v that pass shared memory at a time

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
  const int begin = blockIdx.y * kAppendHeads;
  const int heads = min(kAppendHeads, kTurned - begin);
  for (int i = tid; i < tokens * heads * Rotary::units; i += kAppendThreads) {
    const int u = i % Rotary::units;
    const int head = begin + i / Rotary::units % heads;
    const int t = i / Rotary::units / heads;
    const bool is_q = head < Heads::heads;
    const int kv = head - Heads::heads;
    const T* x = is_q ? Rows::Q(q, first + t) + head * kDim
                      : Rows::K(k, first + t) + kv * kDim;
    float2 y = make_float2(ToFloat(x[Rotary::First(u)]), 0);
    if (u < Rotary::half) {
      y.y = ToFloat(x[Rotary::Second(u)]);
      y = Rotate(y, kTable ? angles[t][u]
                           : Rotary::Angle(position[t], freqs[u]));
    }
    if (is_q) {
      T* to = Rows::Out(out, first + t) + head * kDim;
      to[Rotary::First(u)] = FromFloat<T>(y.x);
      if (u < Rotary::half) to[Rotary::Second(u)] = FromFloat<T>(y.y);
    } else {
      C* to = Cache::KeysOf(state, block[t], kv) +
              position[t] % Keys::block_tokens * kDim;
      to[Rotary::First(u)] = FromFloat<C>(y.x);
      if (u < Rotary::half) to[Rotary::Second(u)] = FromFloat<C>(y.y);
    }
  }
}
