// Instructions that only the attention kernels need: copies into shared memory
// that run beside the arithmetic, fragments out of it, exp2, loads that see
// what other blocks wrote, and the clusters of blocks of sm_90.
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
// What this thread has started since the last call is a group, even if nothing.
__device__ __forceinline__ void CopyGroupEnd() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until all of this thread's groups but the last kLeft have arrived, for
// this thread.
template <int kLeft>
__device__ __forceinline__ void CopyGroupWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
// Waits for all copies that this thread started; those of others are there
// after a __syncthreads.
__device__ __forceinline__ void CopyWait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- what a step's kernels may read before GridWait (base.cuh) --------------

// Past L1, which may hold what an earlier step saw.
__device__ __forceinline__ int LoadInput(const int* p) {
  int x;
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(p));
  return x;
}
// 16 bytes of the cache.
__device__ __forceinline__ uint4 LoadCached(const void* p) {
  uint4 v;
  asm volatile("ld.global.cg.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

#if __CUDA_ARCH__ >= 900
// Asks for `bytes` of the cache, a multiple of 16, to come to L2.
__device__ __forceinline__ void PrefetchL2Bulk(const void* p, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p),
               "r"(bytes));
}
#endif

// ---- clusters ---------------------------------------------------------------

#if __CUDA_ARCH__ >= 900
// All threads of the cluster's blocks arrive, then wait. `Start` tells that the
// blocks run, the other one makes their StoreRemote seen.
__device__ __forceinline__ void ClusterArriveStart() {
  asm volatile("barrier.cluster.arrive.relaxed;");
}
__device__ __forceinline__ void ClusterArrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void ClusterWait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
// To where `p`, an address of this block's shared memory, is in block `rank` of
// the cluster.
__device__ __forceinline__ void StoreRemote(float4* p, int rank, float4 v) {
  uint32_t to;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to)
      : "r"(SharedAddress(p)), "r"(rank));
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
__device__ __forceinline__ void StoreRemote(float2* p, int rank, float2 v) {
  uint32_t to;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to)
      : "r"(SharedAddress(p)), "r"(rank));
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(to), "f"(v.x),
               "f"(v.y)
               : "memory");
}
#endif
