// What the blocks of a cluster send each other without a barrier of all: values
// that arrive in another block's shared memory and are counted there. 9.0 on.
#pragma once
#include "base.cuh"

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// A barrier for one arrival (ExpectBytes) a phase. By one thread, before
// ClusterArrive.
__device__ __forceinline__ void InitInbox(uint64_t* barrier) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;"
      " fence.mbarrier_init.release.cluster;" ::"r"(SharedAddress(barrier))
      : "memory");
}
// The phase ends when so many bytes have come, before or after this.
__device__ __forceinline__ void ExpectBytes(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
// Waits for the end of the phase of this parity; phases start with 0.
__device__ __forceinline__ void WaitInbox(uint64_t* barrier, int parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
        " selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
}

// Stores to where `to` lies, in the block of that rank, and counts the bytes at
// its `barrier`.
__device__ __forceinline__ void Send(float4 v, float* to, uint64_t* barrier,
                                     int rank) {
  asm volatile(
      "{.reg .u32 a, b; mapa.shared::cluster.u32 a, %0, %2;"
      " mapa.shared::cluster.u32 b, %1, %2;"
      " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [a],"
      " {%3, %4, %5, %6}, [b];}" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z),
      "f"(v.w)
      : "memory");
}
__device__ __forceinline__ void Send(float v, float* to, uint64_t* barrier,
                                     int rank) {
  asm volatile(
      "{.reg .u32 a, b; mapa.shared::cluster.u32 a, %0, %2;"
      " mapa.shared::cluster.u32 b, %1, %2;"
      " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [a],"
      " %3, [b];}" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(rank), "f"(v)
      : "memory");
}

// The two halves of a meeting of all threads of the cluster. What InitInbox
// wrote before is seen after; it has its own fence, and a full one would hold
// up what follows.
__device__ __forceinline__ void ClusterArrive() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void ClusterWait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
