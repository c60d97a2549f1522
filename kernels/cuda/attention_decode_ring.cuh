// What a warp of AttentionDecode does with its part of the keys where shared
// memory holds what is on its way.
//
// As in attention_decode_loop.cuh, whose fragments these are, but they wait in a
// ring of shared memory: bytes in flight cost no registers and no place in L1,
// so that the kernel may ask for the largest share of shared memory as those
// beside it do, and its first copies start while the last blocks of the kernel
// before it still run. A lane copies just what it will use itself, so the ring
// needs no barrier.
#pragma once

#include "attention_decode_loop.cuh"

// A warp's way through its groups of a part: members as of DecodeLoop. `ring`:
// this warp's Plan::ring stages of kPieces * 32 pieces of 16 bytes.
template <typename T, typename Heads, typename Keys, typename Plan,
          int kQStride>
struct DecodeRing {
  static constexpr int kDim = Heads::dim, kChunks = kDim / 32;
  static constexpr int kRows = Plan::rows, kStages = Plan::ring;
  static constexpr int kStep = kDecodeGroup * Plan::warps;
  static constexpr int kPieces = kDim / 8;  // of a lane, for keys or values
  // Halves are copied kStages after those that are used: of groups so far on.
  static constexpr int kFarKeys = (kStages + 1) / 2, kFarValues = kStages / 2;
  static_assert(kDim % 32 == 0 && kStages >= 2);
  using Cache = AttentionCache<T, Heads, Keys>;

  T* state;
  const int* table;
  int kv, g, c;
  uint4* ring;
  int stage;                 // of the half at hand
  int blocks[kFarKeys + 1];  // of the group at hand and those behind it

  __device__ __forceinline__ int Block(int token) const {
    return LoadInput(table + token / Keys::block_tokens);
  }
  __device__ __forceinline__ uint4* Stage(int i) const {
    return ring + i * kPieces * 32 + threadIdx.x % 32;
  }
  // Start the copies of the group at `token`, if it is one of the part's.
  __device__ __forceinline__ void CopyKeys(int block, int token, int end,
                                           uint4* to) const {
    if (token < end) {
      const T* row =
          Cache::KeysOf(state, block, kv) +
          (token % Keys::block_tokens + 8 * (g / 2) + g % 2) * kDim + 8 * c;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int i = 0; i < kChunks; ++i) {
          CopyAsync16(SharedAddress(to + (j * kChunks + i) * 32),
                      row + 2 * j * kDim + 32 * i, true);
        }
      }
    }
    CopyGroupEnd();
  }
  __device__ __forceinline__ void CopyValues(int block, int token, int end,
                                             uint4* to) const {
    if (token < end) {
      const T* row = Cache::ValuesOf(state, block, kv) +
                     g * Keys::block_tokens + token % Keys::block_tokens +
                     8 * c;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        CopyAsync16(SharedAddress(to + i * 32),
                    row + 8 * i * Keys::block_tokens, true);
      }
    }
    CopyGroupEnd();
  }
  // The half at hand has arrived; its stage, which is free after it.
  __device__ __forceinline__ uint4* Take() {
    CopyGroupWait<kStages - 1>();
    uint4* at = Stage(stage);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    return at;
  }

  // Asks for what comes first of the groups token, token + kStep, .. of a part
  // that ends at `end`.
  __device__ __forceinline__ void Begin(int token, int end) {
    stage = 0;
#pragma unroll
    for (int i = 0; i <= kFarKeys; ++i) {
      const int next = token + i * kStep;
      blocks[i] = next < end ? Block(next) : 0;
    }
#pragma unroll
    for (int i = 0; i < kStages; ++i) {
      const int next = token + i / 2 * kStep;
      if (i % 2 == 0) {
        CopyKeys(blocks[i / 2], next, end, Stage(i));
      } else {
        CopyValues(blocks[i / 2], next, end, Stage(i));
      }
    }
  }
  // Half kStages behind the keys (kValues: the values) of the group at `token`,
  // into the stage that is free.
  template <bool kValues>
  __device__ __forceinline__ void CopyFar(int token, int end, uint4* to) const {
    constexpr int kFar = kValues ? kFarKeys : kFarValues;
    if constexpr ((kStages + kValues) % 2 == 0) {
      CopyKeys(blocks[kFar], token + kFar * kStep, end, to);
    } else {
      CopyValues(blocks[kFar], token + kFar * kStep, end, to);
    }
  }

  // Takes those groups. Begin was called. rows: of query heads g and g + 8.
  __device__ __forceinline__ void Run(const T* q, const DecodePart& part,
                                      int token,
                                      const typename Keys::Row (&rows)[2],
                                      DecodeState<T, kDim, kRows>& sums) {
    const T* low = q + min(g, kRows - 1) * kQStride + 8 * c;
    const T* high = q + min(g + 8, kRows - 1) * kQStride + 8 * c;
#pragma unroll 1
    for (; token < part.end; token += kStep) {
      // Before it is needed, so that no copy waits for it.
      const int later = token + (kFarKeys + 1) * kStep;
      const int later_block = later < part.end ? Block(later) : 0;
      uint4* keys = Take();
      float s[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
      }
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const uint4 a = *reinterpret_cast<const uint4*>(low + 32 * i);
        uint4 b = make_uint4(0, 0, 0, 0);
        if (kRows > 8) b = *reinterpret_cast<const uint4*>(high + 32 * i);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint4 k = keys[(j * kChunks + i) * 32];
          Mma<T>(s[j], a.x, b.x, a.y, b.y, k.x, k.y);
          Mma<T>(s[j], a.z, b.z, a.w, b.w, k.z, k.w);
        }
      }
      CopyFar<false>(token, part.end, keys);

      const bool edge =
          token < part.first || token + kDecodeGroup > part.end;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = token + 8 * c + 2 * j + i % 2;
          s[j][i] = Keys::Exponent(s[j][i], rows[i / 2], at);
          if (edge && (at < part.first || at >= part.end)) {
            s[j][i] = MinusInfinity();
          }
        }
      }
      uint32_t p[DecodeState<T, kDim, kRows>::kHalves][4];
      sums.Weigh(s, p);

      uint4* values = Take();
      // A column without a token may hold what another sequence left, even
      // infinities, which a weight of zero does not silence.
      const uint4 mask = DecodeMask(part.first - token, part.end - token, c);
#pragma unroll
      for (int i = 0; i < kPieces; i += 2) {
        uint4 a = values[i * 32], b = values[(i + 1) * 32];
        if (edge) a = And(a, mask), b = And(b, mask);
        sums.Add(i / 2, p, a, b);
      }
      CopyFar<true>(token, part.end, values);
#pragma unroll
      for (int i = 0; i < kFarKeys; ++i) blocks[i] = blocks[i + 1];
      blocks[kFarKeys] = later_block;
    }
  }
};
