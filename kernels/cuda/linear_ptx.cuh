// Instructions that only the linear kernels need: copies into shared memory in
// groups, and the shared memory of a cluster's other blocks.
#pragma once
#include "base.cuh"

// 16 bytes from global to shared memory, past the registers; zeros, and nothing
// read, unless `inside`. Both addresses are aligned.
__device__ __forceinline__ void StartCopy16(void* to, const void* from,
                                            bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}
// What this thread has started since the last call is a group, even if nothing.
__device__ __forceinline__ void EndCopyGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until all of this thread's groups but the last kLeft have arrived, for
// this thread; for its warp after a __syncwarp.
template <int kLeft>
__device__ __forceinline__ void WaitCopyGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Clusters exist from 9.0 on; before that a block is alone.
#if __CUDA_ARCH__ >= 900
#define DEEPSLICE_CLUSTER(n) __cluster_dims__(n, 1, 1)
#else
#define DEEPSLICE_CLUSTER(n)
#endif

__device__ __forceinline__ int ClusterRank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return static_cast<int>(rank);
}
// Waits for all threads of the cluster; sees what they wrote if kSee.
template <bool kSee>
__device__ __forceinline__ void ClusterSync() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kSee) {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  } else {
    // Without the fence, which would wait for y to reach memory.
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}
// A few adjacent sums.
template <int N>
struct alignas(4 * N) LinearStrip {
  float v[N];
  __device__ __forceinline__ void Add(const LinearStrip& s) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += s.v[i];
  }
  __device__ __forceinline__ void Scale(float f) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= f;
  }
};
// What lies at `p` of this block's shared memory, in the block of that rank.
template <typename Strip>
__device__ __forceinline__ Strip LoadOfRank(const float* p, int rank) {
  constexpr int N = sizeof(Strip) / 4;
  static_assert(N == 1 || N == 2 || N == 4);
  Strip s = {};
#if __CUDA_ARCH__ >= 900
  uint32_t from;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(from)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(p))), "r"(rank));
  if constexpr (N == 4) {
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(s.v[0]), "=f"(s.v[1]), "=f"(s.v[2]), "=f"(s.v[3])
                 : "r"(from)
                 : "memory");
  } else if constexpr (N == 1) {
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(s.v[0])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];"
                 : "=f"(s.v[0]), "=f"(s.v[1])
                 : "r"(from)
                 : "memory");
  }
#else
  s = *reinterpret_cast<const Strip*>(p);
#endif
  return s;
}
