// Attention of a tile of queries of one sequence, whose keys and values lie in
// the cache already: online softmax over tiles of keys on tensor cores.
//
// A row of the tile is one query head of one token: kPack heads that read the
// same KV head lie side by side, so that keys and values are read once for them
// and short tiles still fill rows. A warp owns 16 * kRowTiles rows.
#pragma once

#include "attention_common.cuh"

constexpr int kTileWarps = 4, kTileThreads = 32 * kTileWarps;

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

  const int* table;
  T* state;  // at the KV head's keys of block 0
  int kv, member;
  int position;   // of the tile's first token
  int low, high;  // keys that some row sees
  uint32_t shared;  // address of q's tile [kRows, kStride]
  float s[kRowTiles][kKeys / 8][4];
  float o[kRowTiles][kDim / 8][4];
  float most[kRowTiles][2], sum[kRowTiles][2];

  __device__ __forceinline__ int Block(int key) const {
    return table[key / Keys::block_tokens];
  }
  // A key that no row sees may lie in a block that is not this sequence's.
  __device__ __forceinline__ bool Seen(int key) const {
    return key >= low && key <= high;
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
      for (int i = tid; i < kTotal * kAcross; i += kTileThreads) {
        f(i / kAcross, i % kAcross * 8);
      }
    }
  }

  __device__ __forceinline__ void CopyQueries(const T* q,
                                              int first_token) const {
    ForChunks<kRows, kChunks>([&](int row, int column) {
      const int token = row / kPack, m = member + row % kPack;
      const bool valid = position + token <= high && Heads::Has(kv, m);
      const T* from = valid ? Rows::Q(q, first_token + token) +
                                  Heads::Head(kv, m) * kDim + column
                            : q;
      CopyAsync16(shared + 2 * (row * kStride + column), from, valid);
    });
  }
  __device__ __forceinline__ void CopyKeys(int key, int block) const {
    const T* base = Cache::KeysOf(state, block, 0) +
                    key % Keys::block_tokens * kDim;
    ForChunks<kKeys, kChunks>([&](int row, int column) {
      const bool valid = Seen(key + row);
      const T* from = base + row * kDim + column;
      if constexpr (!kOneBlock) {
        from = valid ? Cache::KeysOf(state, Block(key + row), 0) +
                           (key + row) % Keys::block_tokens * kDim + column
                     : state;
      }
      CopyAsync16(shared + kKeyTile + 2 * (row * kStride + column), from,
                  valid);
    });
  }
  __device__ __forceinline__ void CopyValues(int key, int block) const {
    const T* base = Cache::ValuesOf(state, block, 0) +
                    key % Keys::block_tokens;
    ForChunks<kDim, kKeys / 8>([&](int row, int column) {
      const int at = key + column;
      const bool valid = at + 7 >= low && at <= high;
      const T* from = base + row * Keys::block_tokens + column;
      if constexpr (!kOneBlock) {
        from = valid ? Cache::ValuesOf(state, Block(at), 0) +
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
    ForChunks<kDim, kKeys / 8>([&](int row, int column) {
      if (Seen(key + column) && Seen(key + column + 7)) return;
      for (int j = 0; j < 8; ++j) {
        if (Seen(key + column + j)) continue;
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

  __device__ __forceinline__ void Mask(int key) {
    const int tid = FreshThreadIndex();
    const int first_row = tid / 32 * kWarpRows + tid % 32 / 4;
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
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float x = most[m][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          x = fmaxf(x, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        }
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
        const float base = x == MinusInfinity() ? 0 : x * Keys::Scale();
        const float shrink = Exp2(most[m][half] * Keys::Scale() - base);
        most[m][half] = x;
        float total = sum[m][half] * shrink;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& w = s[m][n][2 * half + e];
            w = Exp2(fmaf(w, Keys::Scale(), -base));
            total += w;
          }
        }
        sum[m][half] = total;
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
  __device__ __forceinline__ void Store(T* out, int first_token) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    T* mine = reinterpret_cast<T*>(DynamicShared()) +
              warp * kWarpRows * kStride;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float total = sum[m][half];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
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
    for (int i = lane; i < kWarpRows * kChunks; i += 32) {
      const int row = i / kChunks, column = i % kChunks * 8;
      const int token = (warp * kWarpRows + row) / kPack;
      const int m = member + (warp * kWarpRows + row) % kPack;
      if (position + token > high || !Heads::Has(kv, m)) continue;
      *reinterpret_cast<uint4*>(Rows::Out(out, first_token + token) +
                                Heads::Head(kv, m) * kDim + column) =
          *reinterpret_cast<const uint4*>(mine + row * kStride + column);
    }
  }

  __device__ __forceinline__ void Run(const T* q, int first_token) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        most[m][half] = MinusInfinity(), sum[m][half] = 0;
      }
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0;
      }
    }
    int key = low / kKeys * kKeys;
    int block = kOneBlock ? Block(key) : 0;
    CopyQueries(q, first_token);
    CopyKeys(key, block);
    for (; key <= high; key += kKeys) {
      const int next = key + kKeys;
      const int next_block = kOneBlock && next <= high ? Block(next) : 0;
      CopyWait();
      __syncthreads();  // k is there, and v is free
      CopyValues(key, block);
      // Positions of the warp's first and last row, where there are queries.
      const int row = FreshThreadIndex() / 32 * kWarpRows;
      const int from = position + row / kPack;
      const int to = min(high, position + (row + kWarpRows - 1) / kPack);
      // Whether the warp has work; by a vote, so that it is one branch for all.
      const bool some = __any_sync(
          ~0u, from <= high && key <= to &&
                   (Keys::window == 0 || next - 1 > from - Keys::window));
      if (some) {
        Scores();
        if (next - 1 > from ||
            (Keys::window > 0 && key <= to - Keys::window)) {
          Mask(key);
        }
      }
      CopyWait();
      if (key < low || next - 1 > high) ClearUnseenValues(key);
      __syncthreads();  // v is there, and k is free
      if (next <= high) CopyKeys(next, next_block);
      if (some) {
        Weigh();
        AddValues();
      }
      block = next_block;
    }
  }
};

// Grid: kv_heads * kPasses, tiles. The last tiles, with the most keys, first.
template <typename T, typename Heads, typename Keys, typename Rows, int kPack,
          int kRowTiles, int kKeys>
__global__ void __launch_bounds__(kTileThreads)
    AttentionTile(const StepInfo* info, const T* q, const int* tiles,
                  const int* blocks, T* state, T* out) {
  using Tile = TileAttention<T, Heads, Keys, Rows, kPack, kRowTiles, kKeys>;
  GridDone();
  GridWait();
  const int index = info->tiles - 1 - static_cast<int>(blockIdx.y);
  if (index < 0) return;
  Tile tile;
  tile.table = blocks + static_cast<int64_t>(tiles[4 * index + 2]) *
                            info->blocks_per_seq;
  tile.position = tiles[4 * index + 3];
  tile.low = Keys::First(tile.position);
  tile.high = tile.position + tiles[4 * index + 1] - 1;
  tile.kv = blockIdx.x / Tile::kPasses;
  tile.state = Tile::Cache::KeysOf(state, 0, tile.kv);
  tile.member = blockIdx.x % Tile::kPasses * kPack;
  tile.shared = SharedAddress(DynamicShared());
  tile.Run(q, tiles[4 * index]);
  tile.Store(out, tiles[4 * index]);
}
