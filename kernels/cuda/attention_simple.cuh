// Attention for any type, head size and block: the fallback of the decode and
// the tile kernels. Sums in float; no tensor cores.
#pragma once

#include "attention_common.cuh"
#include "relative_bias.cuh"

constexpr int kSimpleWarps = 8, kSimpleThreads = 32 * kSimpleWarps;
constexpr int kSimpleKeys = 128;  // keys that a block takes at a time

// Keys whose scores then grow by T5's biases of relative positions.
template <int kBlockTokens, int kWindow, uint32_t kScaleBits, uint32_t kCapBits,
          typename Bias>
struct AttentionRelativeKeys
    : AttentionBentKeys<kBlockTokens, kWindow, kScaleBits, kCapBits, kNoAlibi,
                        0u, /*kPrecise=*/true> {
  using Bent = AttentionBentKeys<kBlockTokens, kWindow, kScaleBits, kCapBits,
                                 kNoAlibi, 0u, true>;
  static constexpr bool relative = true;
  struct Row {
    const typename Bias::Element* biases = nullptr;
    int position = 0;
  };
  // table: of all heads, of whatever type its elements are.
  __device__ static Row RowOf(const float* table, int head, int position) {
    return {reinterpret_cast<const typename Bias::Element*>(table) +
                head * Bias::buckets,
            position};
  }
  __device__ static float Exponent(float dot, Row row, int key) {
    return Bent::OwnExponent(dot) +
           Bias::Exponent(row.biases, key - row.position);
  }
};

// kRows queries that read one KV head of one sequence. Lanes run along the head
// for keys and along the tokens for values, as each lies in the cache.
template <typename C, typename Heads, typename Keys, int kRows>
struct SimpleAttention {
  static constexpr int kDim = Heads::dim;
  static constexpr int kMine = CeilDiv(kDim, kSimpleWarps);
  using Cache = AttentionCache<C, Heads, Keys>;

  struct Shared {
    float q[kRows][kDim];
    float weights[kRows][kSimpleKeys];
    float shrink[kRows], sums[kRows];
    int64_t key_at[kSimpleKeys], value_at[kSimpleKeys];
  };

  Shared& shared;
  typename Keys::Row rows[kRows];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Of row `warp`, for warps below kRows.
  float most = MinusInfinity(), sum = 0;
  // Element warp + i * kSimpleWarps of the rows, this lane's share.
  float o[kMine][kRows] = {};

  // Starts with one key that is not in the cache; all threads call it.
  // score: of this warp's row, an exponent of 2.
  __device__ __forceinline__ void Begin(float score, const float* value) {
    most = score, sum = 1;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int d = warp + i * kSimpleWarps;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (d < kDim && lane == 0) o[i][r] = value[d];
      }
    }
  }

  // Row r sees keys [max(begin, from[r]), min(end, to[r])) of the cache.
  __device__ __forceinline__ void Run(C* state, const int* table, int kv,
                                      int begin, int end,
                                      const int (&from)[kRows],
                                      const int (&to)[kRows]) {
    for (int first = begin; first < end; first += kSimpleKeys) {
      const int keys = min(kSimpleKeys, end - first);
      __syncthreads();  // q is there, and what was read is free
      for (int i = threadIdx.x; i < keys; i += kSimpleThreads) {
        const int block = table[(first + i) / Keys::block_tokens];
        const int at = (first + i) % Keys::block_tokens;
        shared.key_at[i] = Cache::KeysOf(state, block, kv) - state +
                           static_cast<int64_t>(at) * kDim;
        shared.value_at[i] = Cache::ValuesOf(state, block, kv) - state + at;
      }
      __syncthreads();
      for (int i = warp; i < keys; i += kSimpleWarps) {
        float dot[kRows] = {};
        const C* key = state + shared.key_at[i];
#pragma unroll 4
        for (int d = lane; d < kDim; d += 32) {
          const float x = ToFloat(key[d]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) dot[r] += shared.q[r][d] * x;
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          dot[r] = Keys::Exponent(WarpSum(dot[r]), rows[r], first + i);
          const bool seen = first + i >= from[r] && first + i < to[r];
          if (lane == 0) shared.weights[r][i] = seen ? dot[r] : MinusInfinity();
        }
      }
      __syncthreads();
      if (warp < kRows) Weigh(keys);
      __syncthreads();
      AddValues(state, keys);
    }
  }

  // Row `warp`: scores become weights.
  __device__ __forceinline__ void Weigh(int keys) {
    float* w = shared.weights[warp % kRows];
    float x = most;
    for (int i = lane; i < keys; i += 32) x = fmaxf(x, w[i]);
    x = WarpMax(x);
    const float base = x == MinusInfinity() ? 0 : x;  // no key seen yet
    const float shrink = exp2f(most - base);
    float total = 0;
    for (int i = lane; i < keys; i += 32) {
      w[i] = exp2f(w[i] - base);
      total += w[i];
    }
    sum = sum * shrink + WarpSum(total);
    most = x;
    if (lane == 0) shared.shrink[warp % kRows] = shrink;
  }

  __device__ __forceinline__ void AddValues(C* state, int keys) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float shrink = shared.shrink[r];
#pragma unroll
      for (int i = 0; i < kMine; ++i) o[i][r] *= shrink;
    }
#pragma unroll 1
    for (int j = lane; j < keys; j += 32) {
      const C* value = state + shared.value_at[j] + warp * Keys::block_tokens;
      float w[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) w[r] = shared.weights[r][j];
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        if (warp + i * kSimpleWarps >= kDim) continue;
        const float x = ToFloat(
            value[static_cast<int64_t>(i) * kSimpleWarps * Keys::block_tokens]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) o[i][r] += w[r] * x;
      }
    }
  }

  // out[r]: where row r's head begins, null for none.
  template <typename T>
  __device__ __forceinline__ void Store(T* const (&out)[kRows]) {
    if (warp < kRows && lane == 0) shared.sums[warp % kRows] = sum;
    __syncthreads();
    float inverse[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) inverse[r] = 1 / shared.sums[r];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int d = warp + i * kSimpleWarps;
      if (d >= kDim) continue;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float y = WarpSum(o[i][r]) * inverse[r];
        if (lane == 0 && out[r] != nullptr) out[r][d] = FromFloat<T>(y);
      }
    }
  }
};

// One token of each sequence. Grid: group, kv_heads, tokens; the block of
// member 0 appends, whether or not there is such a query head. slopes: of the
// query heads, where Keys ask for them; or the table of their biases.
template <typename T, typename C, typename Heads, typename Keys,
          typename Rotary, typename Rows>
__device__ __forceinline__ void SimpleDecodeBlock(
    const StepInfo* info, const T* q, const T* k, const T* v,
    const int* positions, const int* slots, const int* blocks,
    const float* freqs, C* state, const float* slopes, T* out) {
  constexpr int kDim = Heads::dim;
  using Attention = SimpleAttention<C, Heads, Keys, 1>;
  using Cache = AttentionCache<C, Heads, Keys>;
  __shared__ typename Attention::Shared shared;
  __shared__ float key[kDim], value[kDim];

  GridDone();
  GridWait();
  const int t = blockIdx.z, kv = blockIdx.y, member = blockIdx.x;
  if (t >= info->tokens) return;
  const bool valid = Heads::Has(kv, member);
  if (!valid && member != 0) return;
  const int position = positions[t];
  const int* table =
      blocks + static_cast<int64_t>(slots[t]) * info->blocks_per_seq;

  const T* k_head = Rows::K(k, t) + kv * kDim;
  const T* v_head = Rows::V(v, t) + kv * kDim;
  const T* q_head =
      valid ? Rows::Q(q, t) + Heads::Head(kv, member) * kDim : nullptr;
  for (int u = threadIdx.x; u < Rotary::units; u += kSimpleThreads) {
    const int a = Rotary::First(u);
    float2 x = make_float2(ToFloat(k_head[a]), 0);
    float2 y = make_float2(valid ? ToFloat(q_head[a]) : 0, 0);
    if (u < Rotary::half) {
      const int b = Rotary::Second(u);
      const float2 angle = Rotary::Angle(position, freqs[u]);
      x = Rotate(make_float2(x.x, ToFloat(k_head[b])), angle);
      y = Rotate(make_float2(y.x, valid ? ToFloat(q_head[b]) : 0), angle);
      key[b] = ToFloat(FromFloat<C>(x.y));
      shared.q[0][b] = y.y;
    }
    key[a] = ToFloat(FromFloat<C>(x.x));
    shared.q[0][a] = y.x;
  }
  for (int d = threadIdx.x; d < kDim; d += kSimpleThreads) {
    value[d] = ToFloat(FromFloat<C>(ToFloat(v_head[d])));
  }
  __syncthreads();
  if (member == 0) {
    const int block = table[position / Keys::block_tokens];
    const int at = position % Keys::block_tokens;
    for (int d = threadIdx.x; d < kDim; d += kSimpleThreads) {
      Cache::KeysOf(state, block, kv)[at * kDim + d] = FromFloat<C>(key[d]);
      Cache::ValuesOf(state, block, kv)[d * Keys::block_tokens + at] =
          FromFloat<C>(value[d]);
    }
    if (!valid) return;
  }

  Attention attention = {shared};
  float dot = 0;
  for (int d = attention.lane; d < kDim; d += 32) {
    dot += shared.q[0][d] * key[d];
  }
  if constexpr (Keys::alibi) {
    attention.rows[0] =
        Keys::RowOf(slopes[Heads::Head(kv, member)], position);
  }
  if constexpr (Keys::relative) {
    attention.rows[0] =
        Keys::RowOf(slopes, Heads::Head(kv, member), position);
    attention.Begin(Keys::Exponent(WarpSum(dot), attention.rows[0], position),
                    value);
  } else {
    attention.Begin(Keys::OwnExponent(WarpSum(dot)), value);
  }
  const int from[1] = {Keys::First(position)}, to[1] = {position};
  attention.Run(state, table, kv, from[0], to[0], from, to);
  T* const rows[1] = {Rows::Out(out, t) + Heads::Head(kv, member) * kDim};
  attention.Store(rows);
}

template <typename T, typename C, typename Heads, typename Keys,
          typename Rotary, typename Rows>
__global__ void __launch_bounds__(kSimpleThreads)
    AttentionSimpleDecode(const StepInfo* info, const T* q, const T* k,
                          const T* v, const int* positions, const int* slots,
                          const int* blocks, const float* freqs, C* state,
                          float* scratch, uint32_t* sync, T* out) {
  SimpleDecodeBlock<T, C, Heads, Keys, Rotary, Rows>(
      info, q, k, v, positions, slots, blocks, freqs, state, nullptr, out);
}
template <typename T, typename C, typename Heads, typename Keys,
          typename Rotary, typename Rows>
__global__ void __launch_bounds__(kSimpleThreads)
    AttentionSimpleDecodeSlopes(const StepInfo* info, const T* q, const T* k,
                                const T* v, const int* positions,
                                const int* slots, const int* blocks,
                                const float* freqs, C* state, float* scratch,
                                uint32_t* sync, const float* slopes, T* out) {
  SimpleDecodeBlock<T, C, Heads, Keys, Rotary, Rows>(
      info, q, k, v, positions, slots, blocks, freqs, state, slopes, out);
}

template <typename T, typename C, typename Heads, typename Keys,
          typename Rotary, typename Rows, typename B>
__global__ void __launch_bounds__(kSimpleThreads)
    AttentionSimpleDecodeRelative(const StepInfo* info, const T* q, const T* k,
                                  const T* v, const int* positions,
                                  const int* slots, const int* blocks,
                                  const float* freqs, C* state, float* scratch,
                                  uint32_t* sync, const B* biases, T* out) {
  SimpleDecodeBlock<T, C, Heads, Keys, Rotary, Rows>(
      info, q, k, v, positions, slots, blocks, freqs, state,
      reinterpret_cast<const float*>(biases), out);
}

// A tile of at most kRows tokens. Grid: heads, tiles.
template <typename T, typename C, typename Heads, typename Keys, typename Rows,
          int kRows>
__device__ __forceinline__ void SimpleTileBlock(const StepInfo* info,
                                                const T* q, const int* tiles,
                                                const int* blocks, C* state,
                                                const float* slopes, T* out) {
  constexpr int kDim = Heads::dim;
  using Attention = SimpleAttention<C, Heads, Keys, kRows>;
  __shared__ typename Attention::Shared shared;

  GridDone();
  GridWait();
  const int index = info->tiles - 1 - static_cast<int>(blockIdx.y);
  if (index < 0) return;
  const int first = tiles[4 * index], tokens = tiles[4 * index + 1];
  const int position = tiles[4 * index + 3];
  const int* table = blocks + static_cast<int64_t>(tiles[4 * index + 2]) *
                                  info->blocks_per_seq;
  const int head = blockIdx.x, kv = Heads::KvHead(head);

  int from[kRows], to[kRows];
  T* rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool valid = r < tokens;
    from[r] = Keys::First(position + r);
    to[r] = valid ? position + r + 1 : 0;
    rows[r] = valid ? Rows::Out(out, first + r) + head * kDim : nullptr;
    for (int d = threadIdx.x; d < kDim; d += kSimpleThreads) {
      shared.q[r][d] =
          valid ? ToFloat(Rows::Q(q, first + r)[head * kDim + d]) : 0;
    }
  }
  Attention attention = {shared};
  if constexpr (Keys::alibi) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      attention.rows[r] = Keys::RowOf(slopes[head], position + r);
    }
  }
  if constexpr (Keys::relative) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      attention.rows[r] = Keys::RowOf(slopes, head, position + r);
    }
  }
  attention.Run(state, table, kv, from[0], position + tokens, from, to);
  attention.Store(rows);
}

template <typename T, typename C, typename Heads, typename Keys, typename Rows,
          int kRows>
__global__ void __launch_bounds__(kSimpleThreads)
    AttentionSimpleTile(const StepInfo* info, const T* q, const int* tiles,
                        const int* blocks, C* state, float* scratch,
                        uint32_t* sync, T* out) {
  SimpleTileBlock<T, C, Heads, Keys, Rows, kRows>(info, q, tiles, blocks, state,
                                                  nullptr, out);
}
template <typename T, typename C, typename Heads, typename Keys, typename Rows,
          int kRows>
__global__ void __launch_bounds__(kSimpleThreads)
    AttentionSimpleTileSlopes(const StepInfo* info, const T* q,
                              const int* tiles, const int* blocks, C* state,
                              float* scratch, uint32_t* sync,
                              const float* slopes, T* out) {
  SimpleTileBlock<T, C, Heads, Keys, Rows, kRows>(info, q, tiles, blocks, state,
                                                  slopes, out);
}
template <typename T, typename C, typename Heads, typename Keys, typename Rows,
          int kRows, typename B>
__global__ void __launch_bounds__(kSimpleThreads)
    AttentionSimpleTileRelative(const StepInfo* info, const T* q,
                                const int* tiles, const int* blocks, C* state,
                                float* scratch, uint32_t* sync,
                                const B* biases, T* out) {
  SimpleTileBlock<T, C, Heads, Keys, Rows, kRows>(
      info, q, tiles, blocks, state, reinterpret_cast<const float*>(biases),
      out);
}
