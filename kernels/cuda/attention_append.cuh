// Rotates q and k of any tokens and appends k and v to the caches: what comes
// before the attention of a tile.
#pragma once

#include "attention_common.cuh"

constexpr int kAppendTokens = 64, kAppendThreads = 256;
constexpr int kAppendHeads = 4;      // q and k heads of a block
constexpr int kAppendColumns = 128;  // of v that pass shared memory at a time

template <typename A, typename B>
constexpr bool kSameType = false;
template <typename A>
constexpr bool kSameType<A, A> = true;

// The tokens of a block.
struct AppendTokens {
  int count;
  int position[kAppendTokens], block[kAppendTokens];
};

// Rows of v are read along the head and written along the tokens, 8 at once
// where 8 of a sequence begin at a multiple of 8.
template <typename T, typename C, typename Heads, typename Keys, typename Rows>
struct AppendValues {
  static constexpr int kDim = Heads::dim;
  static constexpr int kWindows = kAppendTokens / 8;
  using Cache = AttentionCache<C, Heads, Keys>;
  // Whether 16 bytes are 8 elements of a row, and of a cache's row.
  static constexpr bool kWide = kSameType<T, C> && sizeof(T) == 2 &&
                                kDim % 8 == 0 && Rows::WideV(8) &&
                                Keys::block_tokens % 8 == 0;
  // Chunks of 8 elements in a row, odd in number; see Row.
  static constexpr int kStride = kAppendColumns + 8;

  struct Shared {
    __align__(16) C values[kAppendTokens][kStride];
    int run[kWindows];  // where in these 8 tokens a run of 8 begins; or -1
  };

  // Of a token's values in shared memory: the 8 tokens of a run are 8 rows
  // apart, so that runs side by side, with 4 pairs of columns each, are on all
  // banks.
  __device__ __forceinline__ static int Row(int t) {
    return t % 8 * kWindows + t / 8;
  }

  // After it and a barrier, Store.
  __device__ __forceinline__ static void Load(Shared& shared, const T* v,
                                              int first, int tokens, int kv,
                                              int begin) {
    const int columns = min(kAppendColumns, kDim - begin);
    constexpr int kAtOnce = kWide ? 8 : 1;
    using From = AttentionVector<T, kAtOnce>;
    using To = AttentionVector<C, kAtOnce>;
    constexpr int kAcross = kAppendColumns / kAtOnce;
#pragma unroll 4
    for (int i = threadIdx.x; i < tokens * kAcross; i += kAppendThreads) {
      const int t = i / kAcross, d = i % kAcross * kAtOnce;
      if (d >= columns) continue;
      const From x = *reinterpret_cast<const From*>(Rows::V(v, first + t) +
                                                    kv * kDim + begin + d);
      To y;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) y.x[j] = FromFloat<C>(ToFloat(x.x[j]));
      *reinterpret_cast<To*>(&shared.values[Row(t)][d]) = y;
    }
  }

  // Before Store, and between barriers.
  __device__ __forceinline__ static void FindRuns(Shared& shared,
                                                  const AppendTokens& tokens) {
    const int w = threadIdx.x;
    if (w >= kWindows) return;
    int run = -1;
    for (int t = 8 * w; kWide && t < min(8 * w + 8, tokens.count - 7); ++t) {
      // A sequence's tokens follow each other.
      if (tokens.position[t] % 8 == 0 &&
          tokens.position[t + 7] == tokens.position[t] + 7 &&
          tokens.block[t + 7] == tokens.block[t]) {
        run = t;
      }
    }
    shared.run[w] = run;
  }

  __device__ __forceinline__ static void Store(const Shared& shared,
                                               const AppendTokens& tokens,
                                               C* state, int kv, int begin) {
    const int columns = min(kAppendColumns, kDim - begin);
    const auto row = [&](int t, int d) {
      return Cache::ValuesOf(state, tokens.block[t], kv) +
             (begin + d) * Keys::block_tokens +
             tokens.position[t] % Keys::block_tokens;
    };
    if constexpr (kWide) {
      for (int i = threadIdx.x; i < kWindows * columns / 2;
           i += kAppendThreads) {
        const int t = shared.run[i % kWindows], d = i / kWindows * 2;
        if (t < 0) continue;
        uint32_t pair[8];  // of columns d and d + 1
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          pair[j] = *reinterpret_cast<const uint32_t*>(
              &shared.values[Row(t + j)][d]);
        }
        C* to = row(t, d);
        *reinterpret_cast<uint4*>(to) =
            make_uint4(Low(pair[0], pair[1]), Low(pair[2], pair[3]),
                       Low(pair[4], pair[5]), Low(pair[6], pair[7]));
        *reinterpret_cast<uint4*>(to + Keys::block_tokens) =
            make_uint4(High(pair[0], pair[1]), High(pair[2], pair[3]),
                       High(pair[4], pair[5]), High(pair[6], pair[7]));
      }
    }
    // Tokens of no run.
    for (int i = threadIdx.x; i < kAppendTokens * columns;
         i += kAppendThreads) {
      const int t = i % kAppendTokens, d = i / kAppendTokens;
      const int here = shared.run[t / 8];
      const int before = t >= 8 ? shared.run[t / 8 - 1] : -1;
      if (t >= tokens.count || (here >= 0 && t >= here) ||
          (before >= 0 && t < before + 8)) {
        continue;
      }
      *row(t, d) = shared.values[Row(t)][d];
    }
  }

  __device__ __forceinline__ static uint32_t Low(uint32_t a, uint32_t b) {
    return (a & 0xffffu) | b << 16;
  }
  __device__ __forceinline__ static uint32_t High(uint32_t a, uint32_t b) {
    return a >> 16 | (b & 0xffff0000u);
  }
};

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
  using Cache = AttentionCache<C, Heads, Keys>;
  using Values = AppendValues<T, C, Heads, Keys, Rows>;
  __shared__ AppendTokens tokens;

  GridDone();
  const int tid = threadIdx.x, first = blockIdx.x * kAppendTokens;
  const int count = min(kAppendTokens, LoadInput(&info->tokens) - first);
  if (tid < count) {
    const int p = LoadInput(positions + first + tid);
    tokens.position[tid] = p;
    tokens.block[tid] =
        LoadInput(blocks +
                  static_cast<int64_t>(LoadInput(slots + first + tid)) *
                      LoadInput(&info->blocks_per_seq) +
                  p / Keys::block_tokens);
  }
  if (tid == 0) tokens.count = count;
  __syncthreads();

  GridWait();
  if (count <= 0) return;
  if (blockIdx.y >= kGroups) {
    __shared__ typename Values::Shared shared;
    const int kv = blockIdx.y - kGroups;
    Values::FindRuns(shared, tokens);
    for (int begin = 0; begin < kDim; begin += kAppendColumns) {
      if (begin > 0) __syncthreads();  // what was read is free
      Values::Load(shared, v, first, count, kv, begin);
      __syncthreads();
      Values::Store(shared, tokens, state, kv, begin);
    }
    return;
  }

  // Several units at a time, as far as they lie side by side.
  constexpr int kUnits = UnitsAtOnce<Rotary, Rows>(16 / sizeof(T));
  constexpr int kSteps = Rotary::units / kUnits;
  const int begin = blockIdx.y * kAppendHeads;
  for (int i = tid; i < count * kSteps; i += kAppendThreads) {
    const int u = i % kSteps * kUnits, t = i / kSteps;
    RotatedUnits<Rotary, T, kUnits> units[kAppendHeads];
#pragma unroll
    for (int h = 0; h < kAppendHeads; ++h) {
      const int head = begin + h;
      if (head >= kTurned) break;
      units[h].Load(head < Heads::heads
                        ? Rows::Q(q, first + t) + head * kDim
                        : Rows::K(k, first + t) + (head - Heads::heads) * kDim,
                    u);
    }
    float2 angles[kUnits];
    if (u < Rotary::half) {
#pragma unroll
      for (int j = 0; j < kUnits; ++j) {
        angles[j] = Rotary::Angle(tokens.position[t], freqs[u + j]);
      }
    }
#pragma unroll
    for (int h = 0; h < kAppendHeads; ++h) {
      const int head = begin + h;
      if (head >= kTurned) break;
      if (head < Heads::heads) {
        units[h].Store(Rows::Out(out, first + t) + head * kDim, u, angles);
      } else {
        units[h].Store(
            Cache::KeysOf(state, tokens.block[t], head - Heads::heads) +
                tokens.position[t] % Keys::block_tokens * kDim,
            u, angles);
      }
    }
  }
}
