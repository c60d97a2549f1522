// Made-up weights in place: SyntheticUnit of schema/synthetic.h on the card.
#pragma once
#include "base.cuh"

__device__ __forceinline__ uint64_t SyntheticMix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// A block fills pieces of kPiece columns of a row, in turn with the others.
// Product and sum are rounded apart, as a compiler without fused operations has
// them on the host.
template <typename T>
__global__ void __launch_bounds__(256)
    FillRandom(T* out, uint64_t key, int64_t row_stride, int64_t rows,
               int64_t cols, int64_t rows_begin, int64_t cols_begin,
               float mean, float scale) {
  constexpr int kThreads = 256, kPiece = kThreads * 8;
  const int64_t pieces = (cols + kPiece - 1) / kPiece;  // of a row
  for (int64_t at = blockIdx.x; at < rows * pieces; at += gridDim.x) {
    const int64_t row = at / pieces;
    const int64_t begin = (at % pieces) * kPiece;
    const uint64_t row_hash =
        SyntheticMix(key ^ static_cast<uint64_t>(rows_begin + row));
    for (int64_t c = begin + threadIdx.x; c < cols && c < begin + kPiece;
         c += kThreads) {
      const uint64_t hash =
          SyntheticMix(row_hash ^ static_cast<uint64_t>(cols_begin + c));
      const float u =
          static_cast<float>(static_cast<uint32_t>(hash >> 44)) *
              4.76837158203125e-7f -  // 2^-21
          0.25f;
      out[row * row_stride + c] =
          FromFloat<T>(__fadd_rn(mean, __fmul_rn(scale, u)));
    }
  }
}
