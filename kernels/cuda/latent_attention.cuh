// Attention whose cache holds one row a token: the key that all heads share,
// whose first elements are also the value. Two launches: one appends, one
// attends; sums in float, no tensor cores.
#pragma once

#include "attention_common.cuh"
#include "row_util.cuh"

constexpr int kLatentWarps = 8, kLatentThreads = 32 * kLatentWarps;
constexpr int kLatentKeys = 32;  // that a block takes at a time

// Row `position` of the sequence whose blocks are in `table`.
template <int kBlockTokens, int kDim, typename C>
__device__ __forceinline__ C* LatentRow(C* state, const int* table,
                                        int position) {
  const int64_t block = table[position / kBlockTokens];
  return state + (block * kBlockTokens + position % kBlockTokens) * kDim;
}

// The new rows, part a and then part b of each, go to the cache and to y. Grid:
// tokens x blocks of kThreads vectors, which lie within one part.
template <typename T, typename C, int kOfA, int kOfB, int kBlockTokens,
          int64_t kAStride, int64_t kBStride, int64_t kYStride, int kMaxRows,
          int kVec, int kAWidth, int kBWidth, int kYWidth, int kStateWidth,
          int kThreads>
__global__ void __launch_bounds__(kThreads)
    LatentAppend(const StepInfo* info, const T* a, const T* b,
                 const int* positions, const int* slots, const int* blocks,
                 C* state, T* y) {
  constexpr int kDim = kOfA + kOfB;
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCountTokens>(info, kMaxRows)) return;
  const int c = (blockIdx.y * kThreads + threadIdx.x) * kVec;
  if (c >= kDim) return;
  float v[kVec];
  if (c < kOfA) {
    LoadRow<kAWidth>(a + t * kAStride + c, v);
  } else {
    LoadRow<kBWidth>(b + t * kBStride + (c - kOfA), v);
  }
  StoreRow<kYWidth>(y + t * kYStride + c, v);
  const int* table =
      blocks + static_cast<int64_t>(slots[t]) * info->blocks_per_seq;
  StoreRow<kStateWidth>(
      LatentRow<kBlockTokens, kDim>(state, table, positions[t]) + c, v);
}

// kStride_: elements between rows in shared memory, a multiple of 16 bytes and
// an odd one, so that 8 rows at the same column never share a bank. kPart: the
// fewest keys of a part.
template <int kHeads_, int kDim_, int kValueDim_, int kBlockTokens_,
          uint32_t kScaleBits, int kQStride_, int kOutStride_, int kRows_,
          int kStride_, int kParts_, int kPart_>
struct LatentShape {
  static constexpr int kHeads = kHeads_, kDim = kDim_, kValueDim = kValueDim_;
  static constexpr int kBlockTokens = kBlockTokens_, kRows = kRows_;
  static constexpr int64_t kQStride = kQStride_, kOutStride = kOutStride_;
  static constexpr int kStride = kStride_, kParts = kParts_, kPart = kPart_;
  static constexpr int kGroups = (kHeads + kRows - 1) / kRows;
  // Floats of scratch that a part takes: sums, then maximum and sum of weights.
  static constexpr int64_t kPartFloats = kRows * (kValueDim + 2);
  __device__ static float Scale() { return __uint_as_float(kScaleBits); }
};

// Sums of a part of the keys, for kRows heads of a token. A lane has a key
// while scores are made, a thread some columns while values are added.
template <typename T, typename C, typename S>
struct LatentBlock {
  static constexpr int kRows = S::kRows, kStride = S::kStride;
  static constexpr int kMine = CeilDiv(kRows, kLatentWarps);  // rows of a warp
  static constexpr int kColumns = CeilDiv(S::kValueDim, kLatentThreads);
  static constexpr int kChunk = 16 / sizeof(C);
  static_assert(kRows % 4 == 0 && kStride % kChunk == 0, "pieces are whole");

  struct Shared {
    __align__(16) float q[kRows][kStride];
    __align__(16) C keys[kLatentKeys][kStride];
    __align__(16) float weights[kLatentKeys][kRows];
    float shrink[kRows], most[kRows], total[kRows];
  };

  Shared& shared;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float most[kMine], sum[kMine];  // of rows warp + i * kLatentWarps
  float o[kRows][kColumns];       // columns threadIdx.x + i * kLatentThreads

  __device__ __forceinline__ void Begin(const T* q, int first_head) {
    for (int i = threadIdx.x; i < kRows * kStride; i += kLatentThreads) {
      const int row = i / kStride, d = i % kStride;
      const bool valid = first_head + row < S::kHeads && d < S::kDim;
      shared.q[row][d] =
          valid ? ToFloat(q[(first_head + row) * S::kDim + d]) : 0;
    }
    // What lies behind a row is multiplied, too.
    constexpr int kPad = kStride - S::kDim;
    for (int i = threadIdx.x; i < kLatentKeys * kPad; i += kLatentThreads) {
      shared.keys[i / kPad][S::kDim + i % kPad] = FromFloat<C>(0);
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i) most[i] = MinusInfinity(), sum[i] = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) o[r][i] = 0;
    }
  }

  // Keys [first, first + count) to shared memory, zeros behind them.
  template <int kVec>
  __device__ __forceinline__ void Load(C* state, const int* table, int first,
                                       int count) {
    using Vector = AttentionVector<C, kVec>;
    constexpr int kAcross = S::kDim / kVec;
    for (int i = threadIdx.x; i < kLatentKeys * kAcross; i += kLatentThreads) {
      const int key = i / kAcross, d = i % kAcross * kVec;
      Vector v = {};
      if (key < count) {
        v = *reinterpret_cast<const Vector*>(
            LatentRow<S::kBlockTokens, S::kDim>(state, table, first + key) + d);
      }
      *reinterpret_cast<Vector*>(&shared.keys[key][d]) = v;
    }
  }

  // Weights of the keys in shared memory.
  __device__ __forceinline__ void Weigh(int count) {
    float dot[kMine][4] = {};
#pragma unroll 2
    for (int d = 0; d < kStride; d += kChunk) {
      float k[kChunk];
      LoadRow<16>(&shared.keys[lane][d], k);
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const int row = min(warp + i * kLatentWarps, kRows - 1);
#pragma unroll
        for (int j = 0; j < kChunk; ++j) {
          dot[i][j % 4] += shared.q[row][d + j] * k[j];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int row = warp + i * kLatentWarps;
      if (row >= kRows) continue;
      const float score =
          (dot[i][0] + dot[i][1] + (dot[i][2] + dot[i][3])) * S::Scale();
      const float x = lane < count ? score : MinusInfinity();
      const float top = fmaxf(most[i], WarpMax(x));
      const float shrink = exp2f(most[i] - top), weight = exp2f(x - top);
      sum[i] = sum[i] * shrink + WarpSum(weight);
      most[i] = top;
      shared.weights[lane][row] = weight;
      if (lane == 0) shared.shrink[row] = shrink;
    }
  }

  __device__ __forceinline__ void AddValues() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float shrink = shared.shrink[r];
#pragma unroll
      for (int i = 0; i < kColumns; ++i) o[r][i] *= shrink;
    }
#pragma unroll 2
    for (int key = 0; key < kLatentKeys; ++key) {
      float value[kColumns];
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int d = threadIdx.x + i * kLatentThreads;
        value[i] = d < S::kValueDim ? ToFloat(shared.keys[key][d]) : 0;
      }
#pragma unroll
      for (int r = 0; r < kRows; r += 4) {
        const float4 w =
            *reinterpret_cast<const float4*>(&shared.weights[key][r]);
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
          o[r][i] += w.x * value[i], o[r + 1][i] += w.y * value[i];
          o[r + 2][i] += w.z * value[i], o[r + 3][i] += w.w * value[i];
        }
      }
    }
  }

  // Each row's numbers to all threads.
  __device__ __forceinline__ void ShareNumbers() {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int row = warp + i * kLatentWarps;
      if (row < kRows && lane == 0) {
        shared.most[row] = most[i], shared.total[row] = sum[i];
      }
    }
    __syncthreads();
  }

  // Calls f(row, i, column) for what this thread has sums of.
  template <typename F>
  __device__ __forceinline__ static void Each(int first_head, F f) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int d = threadIdx.x + i * kLatentThreads;
        if (first_head + r < S::kHeads && d < S::kValueDim) f(r, i, d);
      }
    }
  }
};

// What another block of this launch wrote before it raised a flag.
__device__ __forceinline__ float LoadFreshFloat(const float* p) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
  return v;
}

// Grid: groups of kRows heads, tokens, parts: those that a short sequence lacks
// come last. The block that ends last joins them. Dynamic shared memory:
// LatentBlock::Shared. kVec: elements of a row of the cache that move at once.
template <typename T, typename C, typename S, int kVec>
__global__ void __launch_bounds__(kLatentThreads)
    LatentAttention(const StepInfo* info, const T* q, const int* positions,
                    const int* slots, const int* blocks, C* state,
                    float* scratch, uint32_t* sync, T* out) {
  using Block = LatentBlock<T, C, S>;
  __shared__ bool last;
  GridDone();
  GridWait();
  const int t = blockIdx.y, part = blockIdx.z;
  const int first_head = blockIdx.x * S::kRows;
  if (t >= info->tokens) return;
  const int keys = positions[t] + 1;
  const int wanted = max(1, min(S::kParts, keys / S::kPart));
  const int size =
      CeilDiv(CeilDiv(keys, wanted), kLatentKeys) * kLatentKeys;
  const int parts = CeilDiv(keys, size);
  if (part >= parts) return;
  const int begin = part * size, end = min(keys, begin + size);
  const int* table =
      blocks + static_cast<int64_t>(slots[t]) * info->blocks_per_seq;

  Block block = {*reinterpret_cast<typename Block::Shared*>(DynamicShared())};
  block.Begin(q + t * S::kQStride, first_head);
  for (int first = begin; first < end; first += kLatentKeys) {
    const int count = min(kLatentKeys, end - first);
    __syncthreads();  // what was read is free
    block.template Load<kVec>(state, table, first, count);
    __syncthreads();
    block.Weigh(count);
    __syncthreads();
    block.AddValues();
  }
  block.ShareNumbers();
  T* row = out + t * S::kOutStride + first_head * S::kValueDim;
  if (parts == 1) {
    Block::Each(first_head, [&](int r, int i, int d) {
      row[r * S::kValueDim + d] =
          FromFloat<T>(__fdividef(block.o[r][i], block.shared.total[r]));
    });
    return;
  }

  const int64_t place = static_cast<int64_t>(t) * S::kGroups + blockIdx.x;
  float* all = scratch + place * S::kParts * S::kPartFloats;
  constexpr int kNumbers = S::kRows * S::kValueDim;
  float* mine = all + part * S::kPartFloats;
  Block::Each(first_head, [&](int r, int i, int d) {
    mine[r * S::kValueDim + d] = block.o[r][i];
  });
  if (threadIdx.x < S::kRows) {
    mine[kNumbers + 2 * threadIdx.x] = block.shared.most[threadIdx.x];
    mine[kNumbers + 2 * threadIdx.x + 1] = block.shared.total[threadIdx.x];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(sync + place, 1u) + 1 == static_cast<uint32_t>(parts);
    if (last) sync[place] = 0;  // as the next step finds it
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  Block::Each(first_head, [&](int r, int i, int d) {
    float most = MinusInfinity(), total = 0, y = 0;
#pragma unroll 1
    for (int p = 0; p < parts; ++p) {
      most = fmaxf(most, LoadFreshFloat(all + p * S::kPartFloats + kNumbers +
                                        2 * r));
    }
#pragma unroll 1
    for (int p = 0; p < parts; ++p) {
      const float* from = all + p * S::kPartFloats;
      const float weight =
          exp2f(LoadFreshFloat(from + kNumbers + 2 * r) - most);
      total += weight * LoadFreshFloat(from + kNumbers + 2 * r + 1);
      y += weight * LoadFreshFloat(from + r * S::kValueDim + d);
    }
    row[r * S::kValueDim + d] = FromFloat<T>(__fdividef(y, total));
  });
}
