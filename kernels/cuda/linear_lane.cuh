// Eight elements of x in a lane, as the multiplication wants them: normalised,
// or scaled with the norm's factor left for later.
#pragma once
#include "linear_shape.cuh"

// Elements of a 16-byte load, and of the chunk of k that four lanes share.
constexpr int kLane = 8;
constexpr int kChunk = 32;

template <typename T>
constexpr bool kRangeOfFloat = false;
template <>
constexpr bool kRangeOfFloat<bf16> = true;

// Eight elements of x as the multiplication wants them: (x - mean) * factor *
// scale [+ bias], rounded to T.
template <typename T, typename S>
__device__ __forceinline__ uint4 NormalizeLane(uint4 x, float2 statistics,
                                               const float (&scale)[kLane],
                                               const float (&bias)[kLane]) {
  uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 v = Unpack2<T>(words[i]);
    if constexpr (S::Has(kLayerNorm)) v.x -= statistics.x, v.y -= statistics.x;
    v.x = v.x * statistics.y * scale[2 * i];
    v.y = v.y * statistics.y * scale[2 * i + 1];
    if constexpr (S::Has(kNormBias)) v.x += bias[2 * i], v.y += bias[2 * i + 1];
    words[i] = Pack2<T>(v.x, v.y);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// x * scale rounded to T, and the sum of x^2 on top of `squares`.
template <typename T>
__device__ __forceinline__ uint4 ScaleLane(uint4 x, const float (&scale)[kLane],
                                           float* squares) {
  uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 v = Unpack2<T>(words[i]);
    *squares += v.x * v.x;
    *squares += v.y * v.y;
    words[i] = Pack2<T>(v.x * scale[2 * i], v.y * scale[2 * i + 1]);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ void LoadLane(const uint4* p, float (&out)[kLane]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 v = p[i];
    out[4 * i] = __uint_as_float(v.x), out[4 * i + 1] = __uint_as_float(v.y);
    out[4 * i + 2] = __uint_as_float(v.z);
    out[4 * i + 3] = __uint_as_float(v.w);
  }
}
