// What kernels over rows share: row counts, and loads and stores of several
// elements in pieces as wide as a row's alignment allows.
#pragma once
#include "base.cuh"

// CountDim of kernel_spec.h, by number.
enum {
  kCountNone = 0,
  kCountTokens = 1,
  kCountRows = 2,
  kCountTiles = 3,
  kCountImageTokens = 4,
  kCountImages = 5,
  kCountSourceTokens = 6
};

// Rows of this launch. After GridWait.
template <int kCount>
__device__ __forceinline__ int RowCount(const StepInfo* info, int max_rows) {
  int n = max_rows;
  if constexpr (kCount == kCountTokens) n = info->tokens;
  if constexpr (kCount == kCountRows) n = info->rows;
  if constexpr (kCount == kCountTiles) n = info->tiles;
  if constexpr (kCount == kCountImageTokens) n = info->image_tokens;
  if constexpr (kCount == kCountImages) n = info->images;
  if constexpr (kCount == kCountSourceTokens) n = info->source_tokens;
  return min(n, max_rows);
}

// N elements from p, which is aligned to kWidth bytes; kWidth divides their size
// and is 2, 4, 8 or 16.
template <int kWidth, typename T, int N>
__device__ __forceinline__ void LoadRow(const T* p, float (&out)[N]) {
  constexpr int kBytes = N * sizeof(T);
  static_assert(kBytes % kWidth == 0, "pieces are whole");
  if constexpr (kWidth < 4) {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = ToFloat(p[i]);
  } else {
    uint32_t words[kBytes / 4];
#pragma unroll
    for (int i = 0; i < kBytes / kWidth; ++i) {
      if constexpr (kWidth == 16) {
        const uint4 v = reinterpret_cast<const uint4*>(p)[i];
        words[4 * i] = v.x, words[4 * i + 1] = v.y;
        words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
      } else if constexpr (kWidth == 8) {
        const uint2 v = reinterpret_cast<const uint2*>(p)[i];
        words[2 * i] = v.x, words[2 * i + 1] = v.y;
      } else {
        words[i] = reinterpret_cast<const uint32_t*>(p)[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        out[i] = __uint_as_float(words[i]);
      } else {
        const float2 pair = Unpack2<T>(words[i]);
        out[2 * i] = pair.x, out[2 * i + 1] = pair.y;
      }
    }
  }
}

template <int kWidth, typename T, int N>
__device__ __forceinline__ void StoreRow(T* p, const float (&in)[N]) {
  constexpr int kBytes = N * sizeof(T);
  static_assert(kBytes % kWidth == 0, "pieces are whole");
  if constexpr (kWidth < 4) {
#pragma unroll
    for (int i = 0; i < N; ++i) p[i] = FromFloat<T>(in[i]);
  } else {
    uint32_t words[kBytes / 4];
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        words[i] = __float_as_uint(in[i]);
      } else {
        words[i] = Pack2<T>(in[2 * i], in[2 * i + 1]);
      }
    }
#pragma unroll
    for (int i = 0; i < kBytes / kWidth; ++i) {
      if constexpr (kWidth == 16) {
        reinterpret_cast<uint4*>(p)[i] =
            make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2],
                       words[4 * i + 3]);
      } else if constexpr (kWidth == 8) {
        reinterpret_cast<uint2*>(p)[i] =
            make_uint2(words[2 * i], words[2 * i + 1]);
      } else {
        reinterpret_cast<uint32_t*>(p)[i] = words[i];
      }
    }
  }
}
