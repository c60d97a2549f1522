// Which keys of which tile a block of AttentionTile takes. Long contexts with
// few queries are cut into parts, as far as there are blocks to spare; the
// block that ends last joins a tile's parts.
#pragma once

#include "attention_common.cuh"

constexpr int kTileWarps = 4, kTileThreads = 32 * kTileWarps;
// A part is worth its sums' way through memory when it is of so many tiles of
// keys: for up to 16 rows, and for more.
constexpr int kTilePartFew = 4, kTilePartMany = 16;
// Rows times parts that one block can join in time, and most parts.
constexpr int kTileJoinRows = 1024, kTileMostParts = 64;

struct TileWork {
  int tile;         // index of its record; -1: nothing is left for this block
  int part, parts;  // of its keys
  int place;        // of part 0 in scratch, when there are several
};

// A record of input "tiles".
struct TileRecord {
  int first, tokens, slot, position;

  __device__ __forceinline__ static TileRecord Load(const int* tiles, int i) {
    const uint4 x = LoadCached(tiles + 4 * static_cast<int64_t>(i));
    return {static_cast<int>(x.x), static_cast<int>(x.y),
            static_cast<int>(x.z), static_cast<int>(x.w)};
  }
};

// Gives the tiles' parts, last tiles first since they have most keys, to blocks
// 0, 1, .. of `slots`, a multiple of kSlots and at least `tiles`. No more than
// kSlots parts are of tiles with several.
template <typename Keys, int kPack, int kKeys, int kSlots>
struct TileSearch {
  static_assert(kSlots > 0 && kSlots <= 1024, "sums of parts fit 16 bits");
  int sums[kTileWarps];
  TileWork found;

  // Tiles of keys that some row of the record sees.
  __device__ __forceinline__ static int KeyTiles(const TileRecord& r) {
    return (r.position + r.tokens - 1) / kKeys -
           Keys::First(r.position) / kKeys + 1;
  }
  // size: tiles of keys that a part has at least.
  __device__ __forceinline__ static int Parts(const TileRecord& r, int size) {
    const int rows = r.tokens * kPack;
    if (rows > 16) size = max(size, kTilePartMany);
    return min(CeilDiv(KeyTiles(r), size),
               min(kTileMostParts, max(1, kTileJoinRows / rows)));
  }

  // All threads call it, once; then `found` is theirs.
  __device__ __forceinline__ void Find(const int* tiles, int count,
                                           int slots, int slot) {
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int each = CeilDiv(count, kTileThreads);
    const int begin = tid * each, end = min(count, begin + each);
    int keys = 0;
    for (int i = begin; i < end; ++i) {
      keys += KeyTiles(TileRecord::Load(tiles, count - 1 - i));
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) keys += __shfl_xor_sync(~0u, keys, d);
    if (lane == 0) sums[warp] = keys;
    if (tid == 0) found = {-1, 0, 1, 0};
    __syncthreads();
    keys = 0;
#pragma unroll
    for (int w = 0; w < kTileWarps; ++w) keys += sums[w];
    // Cut into parts of `size`, each tile has one more than its share at most.
    // Each that is cut takes a spare block or more: kSlots / 2 of them have no
    // more than kSlots parts.
    const int spare =
        min(slots - count, count <= kSlots ? kSlots : kSlots / 2);
    const int size =
        spare > 0 ? max(kTilePartFew, CeilDiv(keys, spare)) : 1 << 30;

    // Of this thread's tiles: parts, and above 16 bits those of cut tiles.
    int mine = 0;
    for (int i = begin; i < end; ++i) {
      const int parts =
          Parts(TileRecord::Load(tiles, count - 1 - i), size);
      mine += parts > 1 ? parts * 0x10001 : 1;
    }
    int before = mine;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const int x = __shfl_up_sync(~0u, before, d);
      if (lane >= d) before += x;
    }
    __syncthreads();  // sums were read
    if (lane == 31) sums[warp] = before;
    __syncthreads();
    before -= mine;
#pragma unroll
    for (int w = 0; w < kTileWarps; ++w) before += w < warp ? sums[w] : 0;
    int at = before & 0xffff, place = before >> 16;
    if (at <= slot && slot < at + (mine & 0xffff)) {
      for (int i = begin; i < end; ++i) {
        const int tile = count - 1 - i;
        const int parts = Parts(TileRecord::Load(tiles, tile), size);
        if (slot < at + parts) {
          found = {tile, slot - at, parts, place};
          break;
        }
        at += parts;
        place += parts > 1 ? parts : 0;
      }
    }
    __syncthreads();
  }
};

// Scratch of a part: float[kRows][kDim] sums, then float[kRows][4] with the
// maximum (an exponent of 2) and the sum of weights.
template <typename T, typename Heads, typename Rows, int kPack, int kRows>
struct TileParts {
  static constexpr int kDim = Heads::dim;
  static constexpr int64_t kPart = static_cast<int64_t>(kRows) * (kDim + 4);

  float* first;  // of part 0
  int parts;

  __device__ __forceinline__ float* Sums(int part, int row) const {
    return first + part * kPart + row * kDim;
  }
  __device__ __forceinline__ float* Numbers(int part, int row) const {
    return first + part * kPart + kRows * kDim + 4 * row;
  }

  // Joins row `row`; a warp. out: the row's head.
  __device__ __forceinline__ void Join(int row, T* out) const {
    constexpr int kTurns = CeilDiv(kTileMostParts, 32);
    constexpr int kQuads = kDim / 4;
    const int lane = threadIdx.x % 32;
    float2 mine[kTurns];
    float most = MinusInfinity(), sum = 0;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      mine[i] = make_float2(MinusInfinity(), 0);
      if (lane + 32 * i < parts) {
        const float4 x = LoadFresh(Numbers(lane + 32 * i, row));
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
    const float inverse = __fdividef(1, WarpSum(sum));
#pragma unroll
    for (int begin = 0; begin < kQuads; begin += 32) {
      const int quad = begin + lane;
      float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const int end = min(32, parts - 32 * i);
#pragma unroll 8
        for (int p = 0; p < end; ++p) {
          const float w = __shfl_sync(~0u, mine[i].x, p);
          if (quad >= kQuads) continue;
          const float4 x = LoadFresh(Sums(32 * i + p, row) + 4 * quad);
          y.x += w * x.x, y.y += w * x.y, y.z += w * x.z, y.w += w * x.w;
        }
      }
      if (quad < kQuads) {
        *reinterpret_cast<uint2*>(out + 4 * quad) =
            make_uint2(Pack2<T>(y.x * inverse, y.y * inverse),
                       Pack2<T>(y.z * inverse, y.w * inverse));
      }
    }
  }
};
