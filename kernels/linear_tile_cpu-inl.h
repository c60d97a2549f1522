// The inner loops of the linear kernel: weights of each encoding widened to
// float in registers, and a tile of 4 rows of w by up to kMaxPanel rows of x.
#if defined(DEEPSLICE_KERNELS_LINEAR_TILE_CPU_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_LINEAR_TILE_CPU_INL_H_
#undef DEEPSLICE_KERNELS_LINEAR_TILE_CPU_INL_H_
#else
#define DEEPSLICE_KERNELS_LINEAR_TILE_CPU_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

inline constexpr int64_t kLanes = hn::MaxLanes(Floats());
inline constexpr int64_t kStep = 2 * kLanes;

// Rows of w per tile: their sums fill one 128-bit vector of out.
inline constexpr int kTileRows = 4;
// Rows of x per tile: 4 x 3 sums, 3 vectors of x and one of w fill 16
// registers, 4 x 6 sums 31 of 32.
#if HWY_CAP_GE512 || HWY_ARCH_ARM_A64
inline constexpr int kMaxPanel = 6;
#else
inline constexpr int kMaxPanel = 3;
#endif

// A loader widens the step of kStep weights at p to two vectors of floats,
// Get(p, 0) and Get(p, 1): the first and second half of the step, or its even
// and odd elements (LoadBF16). PackStep puts x in the same order.
struct LoadF32 {
  using T = float;
  static HWY_INLINE FloatVec Get(const T* p, int half) {
    return LoadFloat(Floats(), p + half * kLanes);
  }
};

struct LoadF16 {
  using T = hwy::float16_t;
  static HWY_INLINE FloatVec Get(const T* p, int half) {
    const FloatVec v = LoadFloat(Floats(), p + half * kLanes);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4
    // Emulated there as if exponent 31 were one more power of two.
    const hn::RebindToUnsigned<Floats> du32;
    const auto special = hn::Ge(hn::Abs(v), hn::Set(Floats(), 65536.0f));
    const auto exponent = hn::BitCast(Floats(), hn::Set(du32, 0x7f800000u));
    return hn::IfThenElse(special, hn::Or(v, exponent), v);
#else
    return v;
#endif
  }
};

struct LoadBF16 {
  using T = hwy::bfloat16_t;
  static HWY_INLINE FloatVec Get(const T* p, int half) {
#if HWY_TARGET == HWY_SCALAR
    return LoadFloat(Floats(), p + half * kLanes);
#else
    // A bf16 is the upper half of a float, so a pair in a 32-bit lane becomes
    // two floats by a shift and a mask, cheaper than widening in order.
    const hn::RebindToUnsigned<Floats> du32;
    const hn::Repartition<uint8_t, Floats> du8;
    const auto pairs =
        hn::BitCast(du32, hn::LoadU(du8, reinterpret_cast<const uint8_t*>(p)));
    return hn::BitCast(Floats(),
                       half == 0 ? hn::ShiftLeft<16>(pairs)
                                 : hn::And(pairs, hn::Set(du32, 0xffff0000u)));
#endif
  }
};

struct LoadI8 {
  using T = int8_t;
  static HWY_INLINE FloatVec Get(const T* p, int half) {
    const hn::RebindToSigned<Floats> di32;
    const hn::Rebind<int8_t, Floats> di8;
    return hn::ConvertTo(
        Floats(), hn::PromoteTo(di32, hn::LoadU(di8, p + half * kLanes)));
  }
};

// Packs a step of x in the order of LoadBF16, or of the other loaders.
HWY_INLINE void PackStep(const float* x, bool for_bf16, float* packed) {
  const Floats d;
  FloatVec first = hn::LoadU(d, x);
  FloatVec second = hn::LoadU(d, x + kLanes);
#if HWY_TARGET != HWY_SCALAR
  if (for_bf16) hn::LoadInterleaved2(d, x, first, second);
#endif
  hn::Store(first, d, packed);
  hn::Store(second, d, packed + kLanes);
}

#if HWY_TARGET != HWY_SCALAR
using Vec4 = hn::Vec<hn::Full128<float>>;

// The sum of the lanes of each vector, in this order.
HWY_INLINE Vec4 SumLanes(FloatVec v0, FloatVec v1, FloatVec v2, FloatVec v3) {
  const Floats d;
  const auto v02 =
      hn::Add(hn::InterleaveLower(d, v0, v2), hn::InterleaveUpper(d, v0, v2));
  const auto v13 =
      hn::Add(hn::InterleaveLower(d, v1, v3), hn::InterleaveUpper(d, v1, v3));
  // v0, v1, v2, v3 in each block of 128 bits; what is left is to add those.
  const auto blocks = hn::Add(hn::InterleaveLower(d, v02, v13),
                              hn::InterleaveUpper(d, v02, v13));
#if HWY_CAP_GE512
  const hn::Half<Floats> d2;
  const auto pair =
      hn::Add(hn::LowerHalf(d2, blocks), hn::UpperHalf(d2, blocks));
#else
  const auto pair = blocks;
#endif
#if HWY_CAP_GE256
  const hn::Full128<float> d4;
  return hn::Add(hn::LowerHalf(d4, pair), hn::UpperHalf(d4, pair));
#else
  return pair;
#endif
}
#endif  // HWY_TARGET != HWY_SCALAR

// Lane sums of a tile in memory: [panel][kTileRows][kLanes], aligned.
inline constexpr int64_t kTileSums = kTileRows * kLanes;  // of a row of x

// Where the results of a tile go: out = sum * scale + bias [+ residual].
struct TileOut {
  const float* scale;     // [kTileRows], 16-byte aligned
  const float* bias;      // [kTileRows], 16-byte aligned
  const float* residual;  // [panel, stride]; nullptr: none
  float* out;             // [panel, stride]; may be residual
  int64_t stride;
  int64_t columns;  // of out, 1 to kTileRows
};

HWY_INLINE void StoreColumns(const float* y, const float* residual,
                             int64_t columns, float* out) {
  for (int64_t r = 0; r < columns; ++r) {
    out[r] = residual == nullptr ? y[r] : y[r] + residual[r];
  }
}

HWY_NOINLINE void FinishTile(const float* sums, int64_t panel, TileOut to) {
  for (int64_t m = 0; m < panel; ++m, sums += kTileSums) {
    alignas(16) float y[kTileRows];
#if HWY_TARGET == HWY_SCALAR
    for (int r = 0; r < kTileRows; ++r) {
      y[r] = sums[r] * to.scale[r] + to.bias[r];
    }
    StoreColumns(y, to.residual, to.columns, to.out);
#else
    const Floats d;
    const hn::Full128<float> d4;
    const Vec4 all =
        hn::MulAdd(SumLanes(hn::Load(d, sums), hn::Load(d, sums + kLanes),
                            hn::Load(d, sums + 2 * kLanes),
                            hn::Load(d, sums + 3 * kLanes)),
                   hn::Load(d4, to.scale), hn::Load(d4, to.bias));
    if (HWY_UNLIKELY(to.columns < kTileRows)) {
      hn::Store(all, d4, y);
      StoreColumns(y, to.residual, to.columns, to.out);
    } else if (to.residual == nullptr) {
      hn::StoreU(all, d4, to.out);
    } else {
      hn::StoreU(hn::Add(all, hn::LoadU(d4, to.residual)), d4, to.out);
    }
#endif
    to.out += to.stride;
    if (to.residual != nullptr) to.residual += to.stride;
  }
}

// What a tile fetches ahead of its own rows of w.
enum class Ahead { kNothing, kIntoL1, kIntoL2 };

template <Ahead kAhead, int kBytes>
HWY_INLINE void PrefetchLines(const char* p) {
  if constexpr (kAhead != Ahead::kNothing) {
    // Highway only prefetches into L1.
#pragma GCC unroll 8
    for (int i = 0; i < kBytes; i += 64) {
      __builtin_prefetch(p + i, 0, kAhead == Ahead::kIntoL1 ? 3 : 2);
    }
  }
}

// Adds k elements of the rows w[0..3] times kPanel packed rows of x to the lane
// sums at sums_in, and stores them at sums_out. `ahead` is fetched in order, as
// many bytes as the tile itself reads.
template <class Loader, int kPanel, Ahead kAhead>
HWY_NOINLINE void Tile(const typename Loader::T* const* w_rows, int64_t k,
                       const float* x, int64_t x_stride, const void* ahead,
                       const float* sums_in, float* sums_out) {
  using T = typename Loader::T;
  const Floats d;
  constexpr int kStepBytes = kTileRows * kStep * sizeof(T);
  const T* w[kTileRows] = {w_rows[0], w_rows[1], w_rows[2], w_rows[3]};
  const char* fetch = static_cast<const char*>(ahead);
  FloatVec sums[kPanel][kTileRows];
#pragma GCC unroll 8
  for (int m = 0; m < kPanel; ++m) {
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      sums[m][r] = hn::Load(d, sums_in + m * kTileSums + r * kLanes);
    }
  }
  HWY_ALIGN T rest[kTileRows][kStep];
  int64_t steps = k / kStep;
  int64_t left = k % kStep;
  while (true) {
    for (int64_t at = 0; steps > 0; --steps, at += kStep, x += kStep) {
      PrefetchLines<kAhead, kStepBytes>(fetch);
      if constexpr (kAhead != Ahead::kNothing) fetch += kStepBytes;
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        FloatVec xs[kPanel];
#pragma GCC unroll 8
        for (int m = 0; m < kPanel; ++m) {
          xs[m] = hn::Load(d, x + m * x_stride + half * kLanes);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kTileRows; ++r) {
          const FloatVec wr = Loader::Get(w[r] + at, half);
#pragma GCC unroll 8
          for (int m = 0; m < kPanel; ++m) {
            sums[m][r] = hn::MulAdd(wr, xs[m], sums[m][r]);
          }
        }
      }
    }
    if (HWY_LIKELY(left == 0)) break;
    // The rest of a step is copied: the bytes after a row are another row,
    // whose infinity times x's padding of zeros is NaN, or lie beyond the
    // mapping.
    for (int r = 0; r < kTileRows; ++r) {
      std::memset(static_cast<void*>(rest[r]), 0, sizeof(rest[r]));
      std::memcpy(static_cast<void*>(rest[r]), w[r] + (k - left),
                  left * sizeof(T));
      w[r] = rest[r];
    }
    steps = 1;
    left = 0;
  }
#pragma GCC unroll 8
  for (int m = 0; m < kPanel; ++m) {
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      hn::Store(sums[m][r], d, sums_out + m * kTileSums + r * kLanes);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_LINEAR_TILE_CPU_INL_H_
