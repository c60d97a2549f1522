// Reads memory as fast as the card can: what all bandwidths are compared with.
#pragma once
#include "base.cuh"

// `count` elements of 16 bytes. Writes to `sink` only so that loads count as
// used; with what probability does not matter.
__global__ void __launch_bounds__(512)
    ReadBandwidth(const uint4* data, int64_t count, uint32_t* sink) {
  constexpr int kUnroll = 8;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t sum = 0;
  for (; i + (kUnroll - 1) * threads < count; i += kUnroll * threads) {
    uint4 v[kUnroll];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) v[j] = LoadStream(data + i + j * threads);
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  for (; i < count; i += threads) {
    const uint4 v = LoadStream(data + i);
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x9e3779b9u) *sink = sum;
}
