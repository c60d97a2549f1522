// What a block of AttentionTile does: online softmax over tiles of keys on
// tensor cores, for a tile of queries of one sequence.
//
// A row of the tile is one query head of one token: kPack heads that read the
// same KV head lie side by side, so that keys and values are read once for them
// and short tiles still fill rows. A warp owns 16 * kRowTiles rows.
#pragma once

#include "attention_tile_split.cuh"

// What a block works on, in shared memory: a thread's registers are full.
struct TileRange {
  int first_token;  // its row of q
  int position;     // and place in the sequence
  int high;         // the last key that some row sees
  int end;          // of the keys that are the block's
  int row;          // of the sequence in `blocks`, counted in elements
};

template <typename T, typename Heads, typename Keys, typename Rows, int kPack,
          int kRowTiles, int kKeys>
struct TileAttention {
  static constexpr int kDim = Heads::dim;
  static constexpr int kWarpRows = 16 * kRowTiles;
  static constexpr int kRows = kTileWarps * kWarpRows;
  static constexpr int kTokens = kRows / kPack;
  static constexpr int kPasses = CeilDiv(Heads::group, kPack);
  static constexpr int kChunks = kDim / 8;  // of 16 bytes, in a row of q or k
  // An odd number of 16-byte chunks: 8 rows at the same column never share a
  // bank.
  static constexpr int kStride = kDim + 8, kValueStride = kKeys + 8;
  static_assert(kDim % 16 == 0 && kKeys % 16 == 0, "odd strides in chunks");
  static_assert(Keys::block_tokens % 8 == 0, "8 values in one block");
  // Bytes from q's tile to those of k [kKeys, kStride] and v [kDim,
  // kValueStride].
  static constexpr int kKeyTile = 2 * kRows * kStride;
  static constexpr int kValueTile = kKeyTile + 2 * kKeys * kStride;
  // A tile of keys lies in one block: its number is read once, ahead.
  static constexpr bool kOneBlock = Keys::block_tokens % kKeys == 0;
  using Cache = AttentionCache<T, Heads, Keys>;
  using Parts = TileParts<T, Heads, Rows, kPack, kRows>;

  const int* blocks;
  T* state;
  const volatile TileRange* range;
  uint32_t shared;  // address of q's tile [kRows, kStride]
  static_assert(2 * kRowTiles <= 4, "four lanes have a row");
  float s[kRowTiles][kKeys / 8][4];
  float o[kRowTiles][kDim / 8][4];
  // Of row 16m + 8h + lane / 4 of the warp, in lane 2m + h of its four.
  float most, sum;

  __device__ __forceinline__ static int KvHead() {
    return blockIdx.x / kPasses;
  }
  // Of the KV head, that lies first in a token's rows.
  __device__ __forceinline__ static int Member() {
    return blockIdx.x % kPasses * kPack;
  }
  __device__ __forceinline__ int Block(int key) const {
    return blocks[range->row + key / Keys::block_tokens];
  }
  // The first key that some row sees.
  __device__ __forceinline__ int Low() const {
    return Keys::First(range->position);
  }
  // Keys that some row sees: others may lie in a block that is not this
  // sequence's.
  struct Bounds {
    int low, high;
    __device__ __forceinline__ bool Has(int key) const {
      return key >= low && key <= high;
    }
  };
  __device__ __forceinline__ Bounds Seen() const {
    return {Low(), range->high};
  }

  // Calls f(row, column) for the 16-byte chunks of this thread, of kTotal rows
  // of kAcross chunks; `column` counts elements.
  template <int kTotal, int kAcross, typename F>
  __device__ __forceinline__ static void ForChunks(F f) {
    const int tid = FreshThreadIndex();
    if constexpr (kTileThreads % kAcross == 0 &&
                  kTotal * kAcross % kTileThreads == 0) {
      const int row = tid / kAcross, column = tid % kAcross * 8;
#pragma unroll
      for (int i = 0; i < kTotal * kAcross / kTileThreads; ++i) {
        f(row + i * (kTileThreads / kAcross), column);
      }
    } else {
      // Not unrolled: there are no registers for several chunks.
#pragma unroll 1
      for (int i = tid; i < kTotal * kAcross; i += kTileThreads) {
        f(i / kAcross, i % kAcross * 8);
      }
    }
  }

  __device__ __forceinline__ void CopyQueries(const T* q) const {
    const int tokens = range->high - range->position + 1;
    const int first_token = range->first_token;
    ForChunks<kRows, kChunks>([&](int row, int column) {
      const int token = row / kPack, m = Member() + row % kPack;
      const bool valid = token < tokens && Heads::Has(KvHead(), m);
      const T* from = valid ? Rows::Q(q, first_token + token) +
                                  Heads::Head(KvHead(), m) * kDim + column
                            : q;
      CopyAsync16(shared + 2 * (row * kStride + column), from, valid);
    });
  }
  __device__ __forceinline__ void CopyKeys(int key, int block) const {
    const T* base = Cache::KeysOf(state, block, KvHead()) +
                    key % Keys::block_tokens * kDim;
    const Bounds seen = Seen();
    ForChunks<kKeys, kChunks>([&](int row, int column) {
      const bool valid = seen.Has(key + row);
      const T* from = base + row * kDim + column;
      if constexpr (!kOneBlock) {
        from = valid ? Cache::KeysOf(state, Block(key + row), KvHead()) +
                           (key + row) % Keys::block_tokens * kDim + column
                     : state;
      }
      CopyAsync16(shared + kKeyTile + 2 * (row * kStride + column), from,
                  valid);
    });
  }
  __device__ __forceinline__ void CopyValues(int key, int block) const {
    const T* base = Cache::ValuesOf(state, block, KvHead()) +
                    key % Keys::block_tokens;
    const Bounds seen = Seen();
    ForChunks<kDim, kKeys / 8>([&](int row, int column) {
      const int at = key + column;
      const bool valid = at + 7 >= seen.low && at <= seen.high;
      const T* from = base + row * Keys::block_tokens + column;
      if constexpr (!kOneBlock) {
        from = valid ? Cache::ValuesOf(state, Block(at), KvHead()) +
                           row * Keys::block_tokens + at % Keys::block_tokens
                     : state;
      }
      CopyAsync16(shared + kValueTile + 2 * (row * kValueStride + column),
                  from, valid);
    });
  }
  // What lies beside the last or first token in its 16 bytes may be another
  // sequence's, even infinite, which a weight of zero does not silence. Each
  // thread mends what it copied.
  __device__ __forceinline__ void ClearUnseenValues(int key) const {
    T* values = reinterpret_cast<T*>(DynamicShared() + kValueTile);
    const Bounds seen = Seen();
    ForChunks<kDim, kKeys / 8>([&](int row, int column) {
      if (seen.Has(key + column) && seen.Has(key + column + 7)) return;
      for (int j = 0; j < 8; ++j) {
        if (seen.Has(key + column + j)) continue;
        values[row * kValueStride + column + j].bits = 0;
      }
    });
  }

  __device__ __forceinline__ void Scores() {
    // As an operand from rows of k (or v): matrices (rows 0..7, columns 0..7),
    // (0..7, 8..15), (8..15, 0..7), (8..15, 8..15).
    const int tid = FreshThreadIndex(), lane = tid % 32;
    const uint32_t k = shared + kKeyTile +
                       2 * ((lane / 16 * 8 + lane % 8) * kStride +
                            lane / 8 % 2 * 8);
    const uint32_t q =
        shared + 2 * ((tid / 32 * kWarpRows + lane % 16) * kStride +
                      lane / 16 * 8);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
      }
    }
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        LoadMatrices(a[m], q + 2 * (16 * m * kStride + d));
      }
#pragma unroll
      for (int n = 0; n < kKeys / 8; n += 2) {
        uint32_t b[4];
        LoadMatrices(b, k + 2 * (8 * n * kStride + d));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          Mma<T>(s[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
          Mma<T>(s[m][n + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
        }
      }
    }
  }

  // Those of the block's heads, in shared memory.
  __device__ __forceinline__ static float* Slopes() {
    __shared__ float slopes[kPack];
    return slopes;
  }
  __device__ __forceinline__ static void KeepSlopes(const float* slopes) {
    const int m = threadIdx.x, member = Member() + m;
    if (m >= kPack) return;
    Slopes()[m] = Heads::Has(KvHead(), member)
                      ? slopes[Heads::Head(KvHead(), member)]
                      : 0;
  }

  // Scores become exponents: softcap, ALiBi.
  __device__ __forceinline__ void Bend(int key) {
    const int tid = FreshThreadIndex();
    const int first_row = tid / 32 * kWarpRows + tid % 32 / 4;
    const int position = range->position;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = first_row + 16 * m + 8 * half;
        typename Keys::Row row;
        if constexpr (Keys::alibi) {
          row = Keys::RowOf(Slopes()[at % kPack], position + at / kPack);
        }
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& x = s[m][n][2 * half + e];
            x = Keys::Exponent(x, row, key + 8 * n + tid % 4 * 2 + e);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void Mask(int key) {
    const int tid = FreshThreadIndex();
    const int first_row = tid / 32 * kWarpRows + tid % 32 / 4;
    const int position = range->position;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = position + (first_row + 16 * m + 8 * half) / kPack;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int k = key + 8 * n + tid % 4 * 2 + e;
            if (k > at || (Keys::window > 0 && k <= at - Keys::window)) {
              s[m][n][2 * half + e] = MinusInfinity();
            }
          }
        }
      }
    }
  }

  // Scores become weights in place; what was summed is scaled to the new
  // maximum. A row may have seen no key yet.
  __device__ __forceinline__ void Weigh() {
    const int lane = FreshThreadIndex() % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int owner = 2 * m + half;
        const float before = __shfl_sync(~0u, most, lane / 4 * 4 + owner);
        float x = before;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          x = fmaxf(x, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        }
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
        const float base = x == MinusInfinity() ? 0 : x * Keys::Scale();
        const float shrink = Exp2(before * Keys::Scale() - base);
        float total = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& w = s[m][n][2 * half + e];
            w = Exp2(fmaf(w, Keys::Scale(), -base));
            total += w;
          }
        }
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (lane % 4 == owner) {
          most = x;
          sum = sum * shrink + total;
        }
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          o[m][n][2 * half] *= shrink;
          o[m][n][2 * half + 1] *= shrink;
        }
      }
    }
  }

  __device__ __forceinline__ void AddValues() {
    const int lane = FreshThreadIndex() % 32;
    const uint32_t v = shared + kValueTile +
                       2 * ((lane / 16 * 8 + lane % 8) * kValueStride +
                            lane / 8 % 2 * 8);
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 2) {
      uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m][0] = Pack2<T>(s[m][n][0], s[m][n][1]);
        a[m][1] = Pack2<T>(s[m][n][2], s[m][n][3]);
        a[m][2] = Pack2<T>(s[m][n + 1][0], s[m][n + 1][1]);
        a[m][3] = Pack2<T>(s[m][n + 1][2], s[m][n + 1][3]);
      }
#pragma unroll
      for (int d = 0; d < kDim / 8; d += 2) {
        uint32_t b[4];
        LoadMatrices(b, v + 2 * (8 * d * kValueStride + 8 * n));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          Mma<T>(o[m][d], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
          Mma<T>(o[m][d + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
        }
      }
    }
  }

  // Through the warp's own rows of q's tile, so that rows leave in 16 bytes.
  __device__ __forceinline__ void Store(T* out) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    T* mine = reinterpret_cast<T*>(DynamicShared()) +
              warp * kWarpRows * kStride;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int owner = 2 * m + half;
        const float total = __shfl_sync(~0u, sum, lane / 4 * 4 + owner);
        const float inverse = __fdividef(1, total);
        T* row = mine + (16 * m + 8 * half + lane / 4) * kStride +
                 lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          *reinterpret_cast<uint32_t*>(row + 8 * n) =
              Pack2<T>(o[m][n][2 * half] * inverse,
                       o[m][n][2 * half + 1] * inverse);
        }
      }
    }
    __syncwarp();
    const int tokens = range->high - range->position + 1;
    for (int i = lane; i < kWarpRows * kChunks; i += 32) {
      const int row = i / kChunks, column = i % kChunks * 8;
      const int token = (warp * kWarpRows + row) / kPack;
      const int m = Member() + (warp * kWarpRows + row) % kPack;
      if (token >= tokens || !Heads::Has(KvHead(), m)) continue;
      *reinterpret_cast<uint4*>(Rows::Out(out, range->first_token + token) +
                                Heads::Head(KvHead(), m) * kDim + column) =
          *reinterpret_cast<const uint4*>(mine + row * kStride + column);
    }
  }

  // Calls f(row, out) for the rows of this warp that are a query's.
  template <typename F>
  __device__ __forceinline__ void ForRows(T* out, F f) const {
    const int rows = min(kRows, (range->high - range->position + 1) * kPack);
    for (int row = threadIdx.x / 32; row < rows; row += kTileWarps) {
      const int m = Member() + row % kPack;
      if (!Heads::Has(KvHead(), m)) continue;
      f(row, Rows::Out(out, range->first_token + row / kPack) +
                 Heads::Head(KvHead(), m) * kDim);
    }
  }

  // Rows that are no query's are stored, too, as far as a warp has some.
  __device__ __forceinline__ void StorePart(const Parts& parts,
                                            int part) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rows = (range->high - range->position + 1) * kPack;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp * kWarpRows + 16 * m + 8 * half + lane / 4;
        const int owner = 2 * m + half;
        const float total = __shfl_sync(~0u, sum, lane / 4 * 4 + owner);
        if (row >= rows) continue;
        float* to = parts.Sums(part, row) + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          *reinterpret_cast<float2*>(to + 8 * n) =
              make_float2(o[m][n][2 * half], o[m][n][2 * half + 1]);
        }
        if (lane % 4 == owner) {
          *reinterpret_cast<float4*>(parts.Numbers(part, row)) =
              make_float4(most * Keys::Scale(), total, 0, 0);
        }
      }
    }
  }

  __device__ __forceinline__ void Clear() {
    most = MinusInfinity(), sum = 0;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0;
      }
    }
  }

  // From `key` on, a multiple of kKeys.
  __device__ __forceinline__ void Run(const T* q, int key) {
    Clear();
    if (key >= range->end) return;
    int block = kOneBlock ? Block(key) : 0;
    CopyQueries(q);
    CopyKeys(key, block);
    for (; key < range->end; key += kKeys) {
      const int next = key + kKeys;
      const int next_block = kOneBlock && next < range->end ? Block(next) : 0;
      CopyWait();
      __syncthreads();  // k is there, and v is free
      CopyValues(key, block);
      // Positions of the warp's first and last row, where there are queries.
      const int row = FreshThreadIndex() / 32 * kWarpRows;
      const Bounds seen = Seen();
      const int position = range->position;
      const int from = position + row / kPack;
      const int to = min(seen.high, position + (row + kWarpRows - 1) / kPack);
      // Whether the warp has work; by a vote, so that it is one branch for all.
      const bool some = __any_sync(
          ~0u, from <= seen.high && key <= to &&
                   (Keys::window == 0 || next - 1 > from - Keys::window));
      if (some) {
        Scores();
        if constexpr (Keys::bent) Bend(key);
        if (next - 1 > from ||
            (Keys::window > 0 && key <= to - Keys::window)) {
          Mask(key);
        }
      }
      CopyWait();
      if (key < seen.low || next - 1 > seen.high) ClearUnseenValues(key);
      __syncthreads();  // v is there, and k is free
      if (next < range->end) CopyKeys(next, next_block);
      if (some) {
        Weigh();
        AddValues();
      }
      block = next_block;
    }
  }
};
