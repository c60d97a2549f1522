// What a warp of AttentionDecode does with its part of the keys.
//
// Fragments come straight from the cache, 16 bytes a lane, because the order of
// a contraction is free as long as both operands agree. With g = lane / 4 and
// c = lane % 4, of 32 tokens:
//   S = Q . K^T: lane (g, c) holds elements d0 + 8c .. + 7 of Q's row g and of
//     a key, for two mma. Column n of tile j is token 8 (n / 2) + 2j + n % 2:
//   P, as S comes out, holds tokens 8c + 2j, + 1 of row g in tile j: tokens
//     8c .. 8c + 7 of the four tiles. As P^T that is just what
//   O^T = V^T . P^T takes beside 16 bytes of a row of V^T.
// So keys and values pass neither shared memory nor other lanes, and up to 8
// query heads fill the 8 columns of O^T.
#pragma once

#include "attention_common.cuh"

constexpr int kDecodeGroup = 32;  // tokens that a warp takes at a time

// Which keys of the cache a block reads: [begin, end), groups from `begin` on;
// those before `first` are out of the window. The token's own key is not among
// them: it is appended meanwhile.
struct DecodePart {
  int first, begin, end;
  int parts;  // that the keys are cut into; this block has none if >= it
};

// How the work is cut. Blocks have kWarps warps and take kRows query heads of a
// KV head. kCluster blocks join their parts in shared memory; of several such
// groups, the one that ends last joins them. Keys are cut into parts of
// kMinPart tokens or more (multiples of it): into one group's as long as these
// have no more than kOwnPart tokens, then into kEven, which fill the GPU when
// all sequences are alike, and up to kMost where a sequence is so long that the
// others would wait for it. kEven and kMost are multiples of kCluster. A warp
// has kRing halves of a group (its keys, its values) on their way in shared
// memory; with none, a group in registers and kAhead more on their way to L2.
template <int kRows, int kWarps, int kCluster, int kEven, int kMost,
          int kMinPart, int kOwnPart, int kAhead, int kRing>
struct DecodePlan {
  static constexpr int rows = kRows, warps = kWarps, threads = 32 * kWarps;
  static constexpr int cluster = kCluster, groups = kMost / kCluster;
  static constexpr int ahead = kAhead, ring = kRing;
  static_assert(kEven % kCluster == 0 && kMost % kCluster == 0, "whole groups");
  static_assert(kMinPart % kDecodeGroup == 0, "parts begin with a group");

  template <typename Keys>
  __device__ __forceinline__ static DecodePart PartOf(int position, int part) {
    DecodePart p;
    p.first = Keys::First(position);
    const int start = p.first / kDecodeGroup * kDecodeGroup;
    const int keys = p.first < position ? position - start : 0;
    int wanted = min(kEven, CeilDiv(keys, kMinPart));
    if (kCluster > 1 && keys <= kCluster * kOwnPart) {
      wanted = min(wanted, kCluster);
    }
    wanted = max(1, max(wanted, min(kMost, keys / 2048)));
    const int size =
        max(kMinPart, CeilDiv(keys, wanted * kMinPart) * kMinPart);
    p.parts = max(1, CeilDiv(keys, size));
    p.begin = start + part * size;
    p.end = min(start + keys, p.begin + size);
    return p;
  }
};

// The online softmax of a warp: rows (query heads) g and, if kRows > 8, g + 8.
template <typename T, int kDim, int kRows>
struct DecodeState {
  static constexpr int kHalves = kRows > 8 ? 2 : 1;
  // o[h][i]: elements 16i + g (o[0], o[1]) and 16i + g + 8 of rows 8h + 2c and
  // 8h + 2c + 1. Elsewhere a lane speaks of row g + 8h.
  float o[kHalves][kDim / 16][4];
  float most[kHalves], sum[kHalves];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      most[h] = MinusInfinity(), sum[h] = 0;
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        o[h][i][0] = o[h][i][1] = o[h][i][2] = o[h][i][3] = 0;
      }
    }
  }

  // Scores of 32 tokens (exponents of 2) become weights, packed as an operand:
  // p[h][j] is tokens 8c + 2j, + 1 of row g + 8h. At least one score of each
  // row must be finite.
  __device__ __forceinline__ void Weigh(const float (&s)[4][4],
                                        uint32_t (&p)[kHalves][4]) {
    const int c = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      float x = most[h];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        x = fmaxf(x, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
      }
      x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
      x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
      const float shrink = Exp2(most[h] - x);
      most[h] = x;
      float total = sum[h] * shrink;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float a = Exp2(s[j][2 * h] - x), b = Exp2(s[j][2 * h + 1] - x);
        total += a + b;
        p[h][j] = Pack2<T>(a, b);
      }
      sum[h] = total;
      // Row r is known to lanes 4r .. 4r + 3.
      const float even = __shfl_sync(~0u, shrink, 8 * c);
      const float odd = __shfl_sync(~0u, shrink, 8 * c + 4);
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        o[h][i][0] *= even, o[h][i][1] *= odd;
        o[h][i][2] *= even, o[h][i][3] *= odd;
      }
    }
  }

  // Adds values . weights; low, high: tokens 8c .. 8c + 7 of elements 16i + g
  // and 16i + g + 8.
  __device__ __forceinline__ void Add(int i, const uint32_t (&p)[kHalves][4],
                                      uint4 low, uint4 high) {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      Mma<T>(o[h][i], low.x, high.x, low.y, high.y, p[h][0], p[h][1]);
      Mma<T>(o[h][i], low.z, high.z, low.w, high.w, p[h][2], p[h][3]);
    }
  }
};

// The parts of 16 bytes, tokens 8c .. 8c + 7 of a group, that lie in
// [first, end), as masks; both bounds relative to the group.
__device__ __forceinline__ uint4 DecodeMask(int first, int end, int c) {
  uint32_t m[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const int lo = 8 * c + 2 * w, hi = lo + 1;
    m[w] = (lo >= first && lo < end ? 0x0000ffffu : 0u) |
           (hi >= first && hi < end ? 0xffff0000u : 0u);
  }
  return make_uint4(m[0], m[1], m[2], m[3]);
}
__device__ __forceinline__ uint4 And(uint4 a, uint4 b) {
  return make_uint4(a.x & b.x, a.y & b.y, a.z & b.z, a.w & b.w);
}

// A warp's way through its groups of a part. table: the sequence's row of the
// block table. q: rotated rows in shared memory, row stride kQStride.
template <typename T, typename Heads, typename Keys, typename Plan,
          int kQStride>
struct DecodeLoop {
  static constexpr int kDim = Heads::dim, kChunks = kDim / 32;
  static constexpr int kRows = Plan::rows, kFar = Plan::ahead;
  static constexpr int kStep = kDecodeGroup * Plan::warps;
  // All keys and values of the next group are on their way while this one is
  // worked on, where registers allow it; else a few rows at a time.
  static constexpr bool kAhead = kDim <= 128;
  static constexpr int kKeyTiles = kAhead ? 4 : 1;
  static constexpr int kValueTiles = kAhead ? kDim / 8 : 4;
  static_assert(kDim % 32 == 0 && kDim <= 256, "the simple kernel takes these");
  using Cache = AttentionCache<T, Heads, Keys>;

  T* state;
  const int* table;
  int kv, g, c;
  int block;  // of the group at hand
  int upcoming[kFar + 1];  // of those behind it, kStep tokens apart
  uint4 keys[kKeyTiles][kChunks];
  uint4 values[kValueTiles];

  __device__ __forceinline__ int Block(int token) const {
    return LoadInput(table + token / Keys::block_tokens);
  }
  // Tile j of the keys of the group at `token`.
  __device__ __forceinline__ void LoadKeys(int block, int token, int j) {
    const T* row = Cache::KeysOf(state, block, kv) +
                   (token % Keys::block_tokens + 8 * (g / 2) + 2 * j + g % 2) *
                       kDim +
                   8 * c;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      keys[j % kKeyTiles][i] = LoadCached(row + 32 * i);
    }
  }
  // kValueTiles row tiles of the values of the group, `first` on.
  __device__ __forceinline__ void LoadValues(int block, int token, int first) {
    const T* row = Cache::ValuesOf(state, block, kv) +
                   (8 * first + g) * Keys::block_tokens +
                   token % Keys::block_tokens + 8 * c;
#pragma unroll
    for (int i = 0; i < kValueTiles; ++i) {
      values[i] = LoadCached(row + 8 * i * Keys::block_tokens);
    }
  }
  // Asks for this warp's share of the block that holds the group at `token`:
  // its keys, and as many rows of values.
  __device__ __forceinline__ void PrefetchFar(int block, int token) const {
#if __CUDA_ARCH__ >= 900
    constexpr int kBytes = kDecodeGroup * kDim * sizeof(T);
    if (threadIdx.x % 32 != 0) return;
    const int at = token % Keys::block_tokens;
    PrefetchL2Bulk(Cache::KeysOf(state, block, kv) + at * kDim, kBytes);
    PrefetchL2Bulk(Cache::ValuesOf(state, block, kv) + at * kDim, kBytes);
#endif
  }
  __device__ __forceinline__ void PrefetchKeys(int block, int token) {
    if constexpr (kAhead) {
#pragma unroll
      for (int j = 0; j < 4; ++j) LoadKeys(block, token, j);
    }
  }
  __device__ __forceinline__ void PrefetchValues(int block, int token) {
    if constexpr (kAhead) LoadValues(block, token, 0);
  }

  __device__ __forceinline__ void Scores(const T* q, int block, int token,
                                         float (&s)[4][4]) {
    const T* low = q + min(g, kRows - 1) * kQStride + 8 * c;
    const T* high = q + min(g + 8, kRows - 1) * kQStride + 8 * c;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
      if constexpr (!kAhead) LoadKeys(block, token, j);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const uint4 k = keys[j % kKeyTiles][i];
        const uint4 a = *reinterpret_cast<const uint4*>(low + 32 * i);
        uint4 b = make_uint4(0, 0, 0, 0);
        if (kRows > 8) b = *reinterpret_cast<const uint4*>(high + 32 * i);
        Mma<T>(s[j], a.x, b.x, a.y, b.y, k.x, k.y);
        Mma<T>(s[j], a.z, b.z, a.w, b.w, k.z, k.w);
      }
    }
  }

  // Asks for what comes first of the groups token, token + kStep, .. of a part
  // that ends at `end`.
  __device__ __forceinline__ void Begin(int token, int end) {
    block = token < end ? Block(token) : 0;
#pragma unroll
    for (int i = 0; i <= kFar; ++i) {
      const int next = token + (i + 1) * kStep;
      upcoming[i] = next < end ? Block(next) : 0;
    }
    if (token >= end) return;
    PrefetchKeys(block, token);
    PrefetchValues(block, token);
#pragma unroll
    for (int i = 0; i < kFar; ++i) {
      const int next = token + (i + 1) * kStep;
      if (next < end) PrefetchFar(upcoming[i], next);
    }
  }

  // Takes those groups. Begin was called. rows: of query heads g and g + 8.
  __device__ __forceinline__ void Run(const T* q, const DecodePart& part,
                                      int token,
                                      const typename Keys::Row (&rows)[2],
                                      DecodeState<T, kDim, kRows>& sums) {
    for (; token < part.end; token += kStep) {
      const int next = token + kStep, far = next + kFar * kStep;
      // Before it is needed, so that the loads of its group wait for nothing.
      const int later_block = far + kStep < part.end ? Block(far + kStep) : 0;
      float s[4][4];
      Scores(q, block, token, s);
      if (next < part.end) PrefetchKeys(upcoming[0], next);
      if (kFar > 0 && far < part.end) PrefetchFar(upcoming[kFar], far);

      const bool edge =
          token < part.first || token + kDecodeGroup > part.end;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = token + 8 * c + 2 * j + i % 2;
          s[j][i] = Keys::Exponent(s[j][i], rows[i / 2], at);
          if (edge && (at < part.first || at >= part.end)) {
            s[j][i] = MinusInfinity();
          }
        }
      }
      uint32_t p[DecodeState<T, kDim, kRows>::kHalves][4];
      sums.Weigh(s, p);

      // A column without a token may hold what another sequence left, even
      // infinities, which a weight of zero does not silence.
      const uint4 mask = DecodeMask(part.first - token, part.end - token, c);
#pragma unroll
      for (int t = 0; t < kDim / 8; t += kValueTiles) {
        if constexpr (!kAhead) LoadValues(block, token, t);
        if (edge) {
#pragma unroll
          for (int i = 0; i < kValueTiles; ++i) {
            values[i] = And(values[i], mask);
          }
        }
#pragma unroll
        for (int i = 0; i < kValueTiles; i += 2) {
          sums.Add((t + i) / 2, p, values[i], values[i + 1]);
        }
      }
      if (next < part.end) PrefetchValues(upcoming[0], next);
      block = upcoming[0];
#pragma unroll
      for (int i = 0; i < kFar; ++i) upcoming[i] = upcoming[i + 1];
      upcoming[kFar] = later_block;
    }
  }
};
