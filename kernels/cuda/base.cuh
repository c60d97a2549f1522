// What all kernels share: element types, conversions, wide loads, the tensor
// core's mma, reductions and the launch protocol. Includes nothing: NVRTC
// compiles kernels without any header of the toolkit.
#pragma once

typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

// StepInfo and SamplerRecord of schema/plan_format.h.
struct StepInfo {
  int tokens, rows, tiles, blocks_per_seq, sampled_rows, image_tokens, images,
      source_tokens;
  int reserved[8];
};
struct SamplerRecord {
  float temperature;
  int top_k;
  float top_p, min_p;
  uint64_t seed, position;
};

// ---- element types -----------------------------------------------------------

struct bf16 {
  uint16_t bits;
};
struct half_t {
  uint16_t bits;
};

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(bf16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ __forceinline__ float ToFloat(half_t x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}
// Round to nearest even.
template <typename T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 FromFloat<bf16>(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <>
__device__ __forceinline__ half_t FromFloat<half_t>(float x) {
  half_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

// Two elements in 32 bits, `lo` at the lower address.
template <typename T>
__device__ __forceinline__ uint32_t Pack2(float lo, float hi);
template <>
__device__ __forceinline__ uint32_t Pack2<bf16>(float lo, float hi) {
  uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
  return y;
}
template <>
__device__ __forceinline__ uint32_t Pack2<half_t>(float lo, float hi) {
  uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
  return y;
}
template <typename T>
__device__ __forceinline__ float2 Unpack2(uint32_t x);
template <>
__device__ __forceinline__ float2 Unpack2<bf16>(uint32_t x) {
  return make_float2(__uint_as_float(x << 16),
                     __uint_as_float(x & 0xffff0000u));
}
template <>
__device__ __forceinline__ float2 Unpack2<half_t>(uint32_t x) {
  float2 y;
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a;"
      " cvt.f32.f16 %1, b;}"
      : "=f"(y.x), "=f"(y.y)
      : "r"(x));
  return y;
}

// ---- memory ------------------------------------------------------------------

// 16 bytes of weights: read once, so they need no place in L1 and leave L2
// first.
__device__ __forceinline__ uint4 LoadStream(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
// 16 bytes that a kernel before this one wrote. Not through the read-only path:
// the load must not move above GridWait.
__device__ __forceinline__ uint4 Load16(const void* p) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

// Asks for p's line to come to L2. For weights that are wanted after GridWait.
__device__ __forceinline__ void PrefetchL2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
// The dynamic shared memory of the block, on 16 bytes.
template <typename T>
__device__ __forceinline__ T* DynamicShared() {
  extern __shared__ uint4 deepslice_dynamic_shared[];
  return reinterpret_cast<T*>(deepslice_dynamic_shared);
}

// ---- tensor core -------------------------------------------------------------

// d[16x8] += a[16x16] . b[16x8], sums in float. Lane l, with g = l / 4 and
// c = l % 4, holds
//   a[0], a[1]: rows g and g + 8, columns 2c, 2c + 1;  a[2], a[3]: columns + 8
//   b[0]: rows 2c, 2c + 1 of column g;                 b[1]: rows + 8
//   d[0], d[1]: row g, columns 2c, 2c + 1;             d[2], d[3]: row g + 8
template <typename T>
__device__ __forceinline__ void Mma(float (&d)[4], uint32_t a0, uint32_t a1,
                                    uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1);
template <>
__device__ __forceinline__ void Mma<bf16>(float (&d)[4], uint32_t a0,
                                          uint32_t a1, uint32_t a2, uint32_t a3,
                                          uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},"
      " {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void Mma<half_t>(float (&d)[4], uint32_t a0,
                                            uint32_t a1, uint32_t a2,
                                            uint32_t a3, uint32_t b0,
                                            uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},"
      " {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// ---- reductions --------------------------------------------------------------

__device__ __forceinline__ float WarpSum(float x) {
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
  return x;
}
__device__ __forceinline__ float WarpMax(float x) {
  for (int d = 16; d > 0; d >>= 1) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  }
  return x;
}

// ---- activations (Act of schema/ops.h, by number) ------------------------------

enum {
  kSilu = 0,
  kGelu = 1,
  kGeluTanh = 2,
  kRelu = 3,
  kQuickGelu = 4,
  kTanh = 5,
  kRelu2 = 6
};
constexpr int kNoAct = -1;

template <int kAct>
__device__ __forceinline__ float Activate(float x) {
  if constexpr (kAct == kSilu) return x / (1.0f + __expf(-x));
  if constexpr (kAct == kGelu) return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  if constexpr (kAct == kGeluTanh) {
    return 0.5f * x *
           (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  }
  if constexpr (kAct == kRelu) return fmaxf(x, 0.0f);
  if constexpr (kAct == kQuickGelu) return x / (1.0f + __expf(-1.702f * x));
  if constexpr (kAct == kTanh) return tanhf(x);
  if constexpr (kAct == kRelu2) return x > 0.0f ? x * x : 0.0f;
  return x;
}

// ---- launch protocol -----------------------------------------------------------
//
// A kernel whose spec is `programmatic` may be running before the step before it
// has ended. It calls GridDone at once and GridWait before it touches anything
// that another step of the program writes or reads; weights may be read before.
// All blocks of a chain wait, idle ones too, so what came before the step before
// is done, too.
//
// What was there before the program's first launch may also be read before
// GridWait: StepInfo, the inputs that the host copies, and what earlier programs
// left in the caches. For the first launch, and each behind a step that is no
// launch, is never programmatic (compiler/gpu/program_builder.cc): it starts
// when the copies and the programs before it have ended. And a kernel starts
// when all blocks of the one before it have called GridDone, so never before
// that first one. Such reads go past L1, which a kernel of an earlier program
// may have filled.

__device__ __forceinline__ void GridWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void GridDone() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
