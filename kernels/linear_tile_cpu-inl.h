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
#undef DS_LINEAR_MAX_PANEL
// Rows of x per tile: 4 x 3 sums, 3 vectors of x and one of w fill 16
// registers; with 32 there is room for 4 x 4.
#if HWY_TARGET == HWY_SCALAR
#define DS_LINEAR_MAX_PANEL 1
#elif HWY_CAP_GE512 || HWY_ARCH_ARM_A64
#define DS_LINEAR_MAX_PANEL 4
#else
#define DS_LINEAR_MAX_PANEL 3
#endif
inline constexpr int kMaxPanel = DS_LINEAR_MAX_PANEL;

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

// Where the results of a tile go: out = sum * scale + bias [+ residual].
struct TileOut {
  const float* scale;     // [rows of w in the tile], 16-byte aligned
  const float* bias;      // likewise
  const float* residual;  // [panel, stride]; nullptr: none
  float* out;             // [panel, stride]; may be residual
  int64_t stride;
  int64_t columns;  // of out: as many as rows of w, or fewer at the end of w
};

// Adds the residual to y [panel, rows] and keeps the first to.columns.
HWY_NOINLINE void StoreColumns(const float* y, int64_t panel, int64_t rows,
                               const TileOut& to) {
  for (int64_t m = 0; m < panel; ++m) {
    for (int64_t r = 0; r < to.columns; ++r) {
      const int64_t at = m * to.stride + r;
      const float sum = y[m * rows + r];
      to.out[at] = to.residual == nullptr ? sum : sum + to.residual[at];
    }
  }
}

// Straight from the registers: a detour through memory would hold back the next
// tile, which is independent.
template <int kPanel, int kRows>
HWY_INLINE void Finish(const FloatVec (&sums)[kPanel][kRows],
                       const TileOut& to) {
  alignas(16) float y[kPanel][kRows];
#if HWY_TARGET == HWY_SCALAR
  for (int m = 0; m < kPanel; ++m) {
    for (int r = 0; r < kRows; ++r) {
      y[m][r] = hn::GetLane(sums[m][r]) * to.scale[r] + to.bias[r];
    }
  }
#else
  const hn::Full128<float> d4;
  const bool is_whole = to.columns == kRows;
#pragma GCC unroll 8
  for (int m = 0; m < kPanel; ++m) {
#pragma GCC unroll 2
    for (int r = 0; r < kRows; r += 4) {
      const int64_t at = m * to.stride + r;
      Vec4 v = hn::MulAdd(
          SumLanes(sums[m][r], sums[m][r + 1], sums[m][r + 2], sums[m][r + 3]),
          hn::Load(d4, to.scale + r), hn::Load(d4, to.bias + r));
      if (HWY_UNLIKELY(!is_whole)) {
        hn::Store(v, d4, &y[m][r]);
        continue;
      }
      if (to.residual != nullptr) {
        v = hn::Add(v, hn::LoadU(d4, to.residual + at));
      }
      hn::StoreU(v, d4, to.out + at);
    }
  }
  if (HWY_LIKELY(is_whole)) return;
#endif
  StoreColumns(&y[0][0], kPanel, kRows, to);
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

// Adds k elements of kRows rows of w (from row w_rows on, the last one again)
// times kPanel packed rows of x to the lane sums at sums_in, [kPanel][kRows]
// [kLanes] and aligned (nullptr: zeros). Then writes results to `to`, or, when
// that is nullptr, lane sums to sums_out. `ahead` is fetched in order, as many
// bytes as the tile itself reads.
template <class Loader, int kPanel, int kRows, Ahead kAhead>
HWY_NOINLINE void Tile(const typename Loader::T* first_row, int64_t w_stride,
                       int64_t w_rows, int64_t k, const float* x,
                       int64_t x_stride, const void* ahead,
                       const float* sums_in, float* sums_out,
                       const TileOut* to) {
  static_assert(kRows % kTileRows == 0);
  using T = typename Loader::T;
  const Floats d;
  constexpr int kStepBytes = kRows * kStep * sizeof(T);
  const T* w[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    w[r] = first_row;
    first_row += r + 1 < w_rows ? w_stride : 0;
  }
  const char* fetch = static_cast<const char*>(ahead);
  FloatVec sums[kPanel][kRows];
#pragma GCC unroll 8
  for (int m = 0; m < kPanel; ++m) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[m][r] = hn::Zero(d);
    }
  }
  if (sums_in != nullptr) {
#pragma GCC unroll 8
    for (int m = 0; m < kPanel; ++m) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[m][r] = hn::Load(d, sums_in + (m * kRows + r) * kLanes);
      }
    }
  }
  HWY_ALIGN T rest[kRows][kStep];
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
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
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
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      std::memset(static_cast<void*>(rest[r]), 0, sizeof(rest[r]));
      std::memcpy(static_cast<void*>(rest[r]), w[r] + (k - left),
                  left * sizeof(T));
      w[r] = rest[r];
    }
    steps = 1;
    left = 0;
  }
  if (to != nullptr) return Finish<kPanel, kRows>(sums, *to);
#pragma GCC unroll 8
  for (int m = 0; m < kPanel; ++m) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sums[m][r], d, sums_out + (m * kRows + r) * kLanes);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_LINEAR_TILE_CPU_INL_H_
