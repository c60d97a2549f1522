// Attention of tiles of queries whose keys and values lie in the cache already.
#pragma once

#include "attention_tile_loop.cuh"

// Blocks that registers let an SM hold, and no spills.
#if __CUDA_ARCH__ < 1000
template <int kDim, bool kBent>
constexpr int kTileResident = kDim <= 64 && !kBent ? 3 : 2;
#else
template <int kDim, bool kBent>
constexpr int kTileResident = 2;
#endif

// Grid: kv_heads * kPasses, a multiple of kSlots that is as many as there are
// tiles or more. scratch: parts of kSlots blocks for each of x; sync: a word
// for each of these; slopes: of the query heads, where Keys ask for them.
template <typename T, typename Heads, typename Keys, typename Rows, int kPack,
          int kRowTiles, int kKeys, int kSlots>
__device__ __forceinline__ void TileBlock(const StepInfo* info, const T* q,
                                          const int* tiles, const int* blocks,
                                          T* state, float* scratch,
                                          uint32_t* sync, const float* slopes,
                                          T* out) {
  using Tile = TileAttention<T, Heads, Keys, Rows, kPack, kRowTiles, kKeys>;
  using Search = TileSearch<Keys, kPack, kKeys, kSlots>;
  __shared__ Search search;
  __shared__ TileRange range;
  __shared__ bool last;
  GridDone();
  // Where to look may be known before the new keys are there.
  search.Find(tiles, LoadInput(&info->tiles), gridDim.y, blockIdx.y);
  GridWait();
  if (search.found.tile < 0) return;
  const TileWork work = search.found;
  const TileRecord record = TileRecord::Load(tiles, work.tile);
  const int size = CeilDiv(Search::KeyTiles(record), work.parts) * kKeys;
  const int begin = Keys::First(record.position) / kKeys * kKeys +
                    work.part * size;
  if (threadIdx.x == 0) {
    range.position = record.position;
    range.high = record.position + record.tokens - 1;
    range.end = min(begin + size, range.high + 1);
    range.row = record.slot * LoadInput(&info->blocks_per_seq);
    range.first_token = record.first;
  }
  if constexpr (Keys::alibi) Tile::KeepSlopes(slopes);
  __syncthreads();
  Tile tile;
  tile.blocks = blocks;
  tile.range = &range;
  tile.state = state;
  tile.shared = SharedAddress(DynamicShared());
  tile.Run(q, begin);
  if (search.found.parts == 1) {
    tile.Store(out);
    return;
  }

  const int64_t place =
      static_cast<int64_t>(blockIdx.x) * kSlots + search.found.place;
  const typename Tile::Parts parts = {scratch + place * Tile::Parts::kPart,
                                      search.found.parts};
  tile.StorePart(parts, search.found.part);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(sync + place, 1u) + 1 ==
           static_cast<uint32_t>(parts.parts);
    if (last) sync[place] = 0;  // as the next step finds it
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  tile.ForRows(out, [&](int row, T* to) { parts.Join(row, to); });
}

template <typename T, typename Heads, typename Keys, typename Rows, int kPack,
          int kRowTiles, int kKeys, int kSlots>
__global__ void __launch_bounds__(kTileThreads,
                                  kTileResident<Heads::dim, Keys::bent>)
    AttentionTile(const StepInfo* info, const T* q, const int* tiles,
                  const int* blocks, T* state, float* scratch, uint32_t* sync,
                  T* out) {
  TileBlock<T, Heads, Keys, Rows, kPack, kRowTiles, kKeys, kSlots>(
      info, q, tiles, blocks, state, scratch, sync, nullptr, out);
}
template <typename T, typename Heads, typename Keys, typename Rows, int kPack,
          int kRowTiles, int kKeys, int kSlots>
__global__ void __launch_bounds__(kTileThreads,
                                  kTileResident<Heads::dim, Keys::bent>)
    AttentionTileSlopes(const StepInfo* info, const T* q, const int* tiles,
                        const int* blocks, T* state, float* scratch,
                        uint32_t* sync, const float* slopes, T* out) {
  TileBlock<T, Heads, Keys, Rows, kPack, kRowTiles, kKeys, kSlots>(
      info, q, tiles, blocks, state, scratch, sync, slopes, out);
}
