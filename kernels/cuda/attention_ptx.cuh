// Instructions that only the attention kernels need: copies into shared memory
// that run beside the arithmetic, fragments out of it, exp2, and loads that see
// what other blocks wrote.
#pragma once

#include "base.cuh"

// 2^x, to 2 units in the last place; 2^-inf is 0.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// threadIdx.x, read anew: what is computed from it lives no longer than it is
// used, instead of taking registers across a loop.
__device__ __forceinline__ int FreshThreadIndex() {
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

// 16 bytes that another block of this launch wrote before it raised a flag.
__device__ __forceinline__ float4 LoadFresh(const float* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

// The dynamic shared memory of the block, 16-byte aligned.
__device__ __forceinline__ uint8_t* DynamicShared() {
  extern __shared__ uint4 dynamic_shared[];
  return reinterpret_cast<uint8_t*>(dynamic_shared);
}
// As the instructions below want it.
__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Four 8x8 matrices of 16-bit elements. Lane l gives the address of row l % 8
// of matrix l / 8 (16 bytes, aligned); r[i] is elements 2c, 2c + 1 of row g of
// matrix i, with g = lane / 4 and c = lane % 4.
__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4],
                                             uint32_t address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(address)
      : "memory");
}

// 16 bytes from global to shared memory, past the registers; zeros, and nothing
// read, unless `valid`. Both addresses are aligned.
__device__ __forceinline__ void CopyAsync16(uint32_t to, const void* from,
                                            bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                   to),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
// Waits for all copies that this thread started; those of others are there
// after a __syncthreads.
__device__ __forceinline__ void CopyWait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
