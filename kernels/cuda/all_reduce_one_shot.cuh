// Sums (or gathers, or broadcasts) small messages of ranks whose memory is
// mapped into each other's address space: every rank pushes its values to all
// others at once and sums what came, always in the order of the ranks, so all
// get the same bits.
//
// A line of a receive buffer is 16 bytes: two words of 8, each 4 bytes of data
// below the number of the call. A word is read and written as a whole, so data
// that has the call's number is there: no fence, no second trip. Buffers
// alternate between calls. A rank may write one again two calls later, when it has what the
// others sent in the call between, which they began after they had read the
// first; so every rank must send in every call, also in a broadcast.
#pragma once
#include "base.cuh"

constexpr int kOneShotRanks = 8;

// OneShotArgs of runtime/comm/nccl/one_shot_args.h.
struct OneShotArgs {
  uint64_t* peers[kOneShotRanks];  // receive buffers: [2][world][lines][2]
  uint64_t lines;                  // of a rank's part of a receive buffer
  uint32_t* state;                 // own: calls so far, blocks done
  const uint32_t* stop;            // host memory: not 0 ends every wait
  int rank, world;
  int mode;  // 0 sum, 1 gather, 2 broadcast from rank 0
  int reserved;
};
static_assert(sizeof(OneShotArgs) == 104);

struct OneShotLine {
  uint64_t word[2];
};

__device__ __forceinline__ void PushLine(uint64_t* to, const OneShotLine& v) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to),
               "l"(v.word[0]), "l"(v.word[1])
               : "memory");
}
__device__ __forceinline__ OneShotLine PeekLine(const uint64_t* from) {
  OneShotLine v;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(v.word[0]), "=l"(v.word[1])
               : "l"(from)
               : "memory");
  return v;
}
__device__ __forceinline__ bool Came(const OneShotLine& v, uint32_t call) {
  return static_cast<uint32_t>(v.word[0] >> 32) == call &&
         static_cast<uint32_t>(v.word[1] >> 32) == call;
}
__device__ __forceinline__ uint32_t LoadSystem(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p)
               : "memory");
  return v;
}

// The 8 bytes of a line as elements.
template <typename T>
union OneShotData {
  static constexpr int kCount = 8 / sizeof(T);
  uint32_t word[2];
  T value[kCount];
  __device__ OneShotData() : word{0, 0} {}
};

template <typename T>
__device__ __forceinline__ OneShotData<T> LoadPart(const T* from, int n,
                                                   bool wide) {
  OneShotData<T> d;
  if (wide) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    d.word[0] = v.x;
    d.word[1] = v.y;
  } else {
    for (int i = 0; i < OneShotData<T>::kCount; ++i) {
      if (i < n) d.value[i] = from[i];
    }
  }
  return d;
}
template <typename T>
__device__ __forceinline__ void StorePart(T* to, const OneShotData<T>& d, int n,
                                          bool wide) {
  if (wide) {
    *reinterpret_cast<uint2*>(to) = make_uint2(d.word[0], d.word[1]);
  } else {
    for (int i = 0; i < OneShotData<T>::kCount; ++i) {
      if (i < n) to[i] = d.value[i];
    }
  }
}

// in, out: `count` elements each, out of a gather world * count; out may be in.
// count * sizeof(T) <= lines * 8. Any grid; all ranks launch the same.
template <typename T>
__global__ void __launch_bounds__(512)
    AllReduceOneShot(const T* in, T* out, int64_t count,
                     const __grid_constant__ OneShotArgs a) {
  using Data = OneShotData<T>;
  constexpr int kPer = Data::kCount;
  GridDone();
  GridWait();
  __shared__ uint32_t now;
  if (threadIdx.x == 0) now = LoadSystem(a.state) + 1;
  __syncthreads();
  const uint32_t call = now;
  const int64_t lines = (count + kPer - 1) / kPer;
  const int64_t half = (call & 1) * a.world * a.lines;
  const int64_t first = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int64_t stride = gridDim.x * int64_t(blockDim.x);
  // Parts of 8 bytes whose address is a multiple of 8.
  const bool in_wide = reinterpret_cast<uint64_t>(in) % 8 == 0;
  const bool out_wide = reinterpret_cast<uint64_t>(out) % 8 == 0 &&
                        (a.mode != 1 || count % kPer == 0);

  for (int64_t i = first; i < lines; i += stride) {
    const int64_t left = count - i * kPer;
    const int n = left < kPer ? static_cast<int>(left) : kPer;
    Data mine;
    if (a.mode != 2 || a.rank == 0) {
      mine = LoadPart(in + i * kPer, n, in_wide && n == kPer);
    }
    OneShotLine line;
    line.word[0] = uint64_t(call) << 32 | mine.word[0];
    line.word[1] = uint64_t(call) << 32 | mine.word[1];
    const int64_t at = half + a.rank * a.lines + i;
#pragma unroll
    for (int k = 1; k < kOneShotRanks; ++k) {
      // Each rank begins with another peer.
      if (k < a.world) {
        const int peer = a.rank + k < a.world ? a.rank + k : a.rank + k - a.world;
        PushLine(a.peers[peer] + 2 * at, line);
      }
    }
  }

  const uint64_t* inbox = a.peers[a.rank] + 2 * half;
  bool stopped = false;
  for (int64_t i = first; i < lines && !stopped; i += stride) {
    const int64_t left = count - i * kPer;
    const int n = left < kPer ? static_cast<int>(left) : kPer;
    OneShotLine got[kOneShotRanks];
    uint32_t waiting = 0;
#pragma unroll
    for (int r = 0; r < kOneShotRanks; ++r) {
      if (r < a.world && r != a.rank) {
        got[r] = PeekLine(inbox + 2 * (r * a.lines + i));
        waiting |= Came(got[r], call) ? 0u : 1u << r;
      }
    }
    for (uint32_t spins = 1; waiting != 0 && !stopped; ++spins) {
#pragma unroll
      for (int r = 0; r < kOneShotRanks; ++r) {
        if (waiting >> r & 1) {
          got[r] = PeekLine(inbox + 2 * (r * a.lines + i));
          if (Came(got[r], call)) waiting &= ~(1u << r);
        }
      }
      if (spins % 4096 == 0) stopped = LoadSystem(a.stop) != 0;
    }
    if (stopped) break;

    Data mine;
    if (a.mode != 2 || a.rank == 0) {
      mine = LoadPart(in + i * kPer, n, in_wide && n == kPer);
    }
    float sum[kPer];
#pragma unroll
    for (int k = 0; k < kPer; ++k) sum[k] = 0.0f;
#pragma unroll
    for (int r = 0; r < kOneShotRanks; ++r) {
      if (r >= a.world) continue;
      Data d = mine;
      if (r != a.rank) {
        d.word[0] = static_cast<uint32_t>(got[r].word[0]);
        d.word[1] = static_cast<uint32_t>(got[r].word[1]);
      }
      if (a.mode == 0) {
#pragma unroll
        for (int k = 0; k < kPer; ++k) {
          sum[k] = r == 0 ? ToFloat(d.value[k]) : sum[k] + ToFloat(d.value[k]);
        }
      } else if (a.mode == 1) {
        StorePart(out + r * count + i * kPer, d, n, out_wide && n == kPer);
      } else if (r == 0 && a.rank != 0) {
        StorePart(out + i * kPer, d, n, out_wide && n == kPer);
      }
    }
    if (a.mode == 0) {
      Data d;
#pragma unroll
      for (int k = 0; k < kPer; ++k) d.value[k] = FromFloat<T>(sum[k]);
      StorePart(out + i * kPer, d, n, out_wide && n == kPer);
    }
  }

  // The last block to end counts the call.
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(a.state + 1, 1u) == gridDim.x - 1) {
    a.state[1] = 0;
    a.state[0] = call;
  }
}
