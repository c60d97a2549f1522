// One thread's share of a linear: streams the weight past a few rows of x, or
// blocks both for the caches when there are many.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/linear_cpu.h"
#include "schema/base/check.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"

// The tiles keep vectors in arrays, which these sizeless vectors cannot.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_SSSE3)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_part_cpu.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kernels/linear_tile_cpu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {
namespace {

// A block of w as floats, kBlockRows x kBlockK, stays in L1 (24 of 32 KiB)
// while panels of x stream past it.
constexpr int64_t kBlockRows = 8;
constexpr int64_t kBlockK = 768;
static_assert(kBlockRows % kTileRows == 0 && kBlockK % kStep == 0);
// From here on, widening a block once is cheaper than in every panel of x.
constexpr int64_t kMinRowsToPack = 12;
// How far the memory system is asked ahead when streaming into L2.
constexpr int64_t kAheadBytes = 4096;

int64_t Step() { return kStep; }

int64_t PartScratchFloats(int64_t rows, int64_t k) {
  if (rows <= kMaxPanel) return 0;
  const int64_t sums = k > kBlockK ? rows * kBlockRows * kLanes : 0;
  return kBlockRows * kBlockK + sums;
}

void PackX(const float* x, int64_t k, Encoding encoding, float* packed) {
  const bool for_bf16 = encoding == Encoding::kBF16;
  int64_t at = 0;
  for (; at + kStep <= k; at += kStep) PackStep(x + at, for_bf16, packed + at);
  if (at < k) {
    float rest[kStep] = {};
    std::memcpy(rest, x + at, (k - at) * sizeof(float));
    PackStep(rest, for_bf16, packed + at);
  }
}

// The scale and bias of the rows [n, n + count), ones and zeros where absent.
struct BlockEnds {
  HWY_ALIGN float scale[kBlockRows];
  HWY_ALIGN float bias[kBlockRows];

  BlockEnds(const LinearPart& p, int64_t n, int64_t count) {
    for (int64_t i = 0; i < kBlockRows; ++i) {
      const bool is_row = i < count;
      scale[i] = is_row && p.scales != nullptr ? p.scales[n + i] : 1.0f;
      bias[i] = is_row && p.bias != nullptr ? Bias(p, n + i) : 0.0f;
    }
  }

  static float Bias(const LinearPart& p, int64_t n) {
    if (p.bias_encoding == Encoding::kF32) {
      return static_cast<const float*>(p.bias)[n];
    }
    const uint16_t bits = static_cast<const uint16_t*>(p.bias)[n];
    return p.bias_encoding == Encoding::kBF16 ? BF16ToFloat(bits)
                                              : F16ToFloat(bits);
  }
};

// `columns` results from row n + group on, of the rows of x from m on.
TileOut OutAt(const LinearPart& p, const BlockEnds& block, int64_t m, int64_t n,
              int64_t group, int64_t columns) {
  const int64_t at = m * p.out_stride + n + group;
  return {.scale = block.scale + group,
          .bias = block.bias + group,
          .residual = p.residual == nullptr ? nullptr : p.residual + at,
          .out = p.out + at,
          .stride = p.out_stride,
          .columns = columns};
}

HWY_ALIGN constexpr float kNoSums[kMaxPanel * kTileSums] = {};

// The tile of a panel of `rows` rows, 1 to kMaxPanel.
template <class Loader, Ahead kAhead>
void RunTile(int64_t rows, const typename Loader::T* const* w, int64_t k,
             const float* x, int64_t x_stride, const void* ahead,
             const float* sums_in, float* sums_out) {
#define DS_TILE(N) \
  Tile<Loader, N, kAhead>(w, k, x, x_stride, ahead, sums_in, sums_out)
  switch (rows) {
    case 1:
      return DS_TILE(1);
    case 2:
      return DS_TILE(2);
    case 3:
      return DS_TILE(3);
#if HWY_CAP_GE512 || HWY_ARCH_ARM_A64
    case 4:
      return DS_TILE(4);
    case 5:
      return DS_TILE(5);
    case 6:
      return DS_TILE(6);
#endif
  }
#undef DS_TILE
}

// Rows of the next panel when `left` remain: never a lone row after a full
// panel, because one row of sums cannot hide the latency of an addition.
int64_t PanelRows(int64_t left) {
  if (left <= kMaxPanel) return left;
  return left < 2 * kMaxPanel ? (left + 1) / 2 : kMaxPanel;
}

// Rows past `columns` read the last one again, and their sums go nowhere.
template <typename T>
struct RowPointers {
  const T* at[kTileRows];
  RowPointers(const T* first, int64_t stride, int64_t columns) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      at[r] = first + std::min(r, columns - 1) * stride;
    }
  }
};

// At most kMaxPanel rows of x: reads w once, as fast as it comes.
template <class Loader, Ahead kAhead>
void Stream(const LinearPart& p) {
  using T = typename Loader::T;
  const T* w = static_cast<const T*>(p.w);
  HWY_ALIGN float sums[kMaxPanel * kTileSums];
  const int64_t distance = kTileRows * p.k * static_cast<int64_t>(sizeof(T)) +
                           (kAhead == Ahead::kIntoL2 ? kAheadBytes : 0);
  for (int64_t n = p.n_begin; n < p.n_end; n += kTileRows) {
    const int64_t columns = std::min<int64_t>(kTileRows, p.n_end - n);
    const RowPointers<T> rows(w + n * p.k, p.k, columns);
    const BlockEnds block(p, n, columns);
    RunTile<Loader, kAhead>(
        p.rows, rows.at, p.k, p.x, p.x_stride,
        reinterpret_cast<const char*>(rows.at[0]) + distance, kNoSums, sums);
    FinishTile(sums, p.rows, OutAt(p, block, 0, n, 0, columns));
  }
}

// Widens rows of w, k elements each, to [kBlockRows, stride] in step order;
// rows from `count` up to a whole tile are zeros.
template <class Loader>
void PackBlock(const typename Loader::T* w, int64_t row_stride, int64_t count,
               int64_t k, float* packed, int64_t stride) {
  using T = typename Loader::T;
  const Floats d;
  for (int64_t r = 0; r < count; ++r) {
    const T* row = w + r * row_stride;
    float* to = packed + r * stride;
    HWY_ALIGN T rest[kStep] = {};
    for (int64_t at = 0; at < k; at += kStep) {
      const T* from = row + at;
      if (at + kStep > k) {
        std::memcpy(static_cast<void*>(rest), from, (k - at) * sizeof(T));
        from = rest;
      }
      hn::Store(Loader::Get(from, 0), d, to + at);
      hn::Store(Loader::Get(from, 1), d, to + at + kLanes);
    }
  }
}

template <class Loader, bool kPack>
void Blocked(const LinearPart& p) {
  using T = typename Loader::T;
  const T* w = static_cast<const T*>(p.w);
  float* packed = p.scratch;
  float* sums = p.scratch + kBlockRows * kBlockK;
  HWY_ALIGN float tile_sums[kMaxPanel * kTileSums];
  const int64_t num_k_blocks =
      std::max<int64_t>(1, (p.x_stride + kBlockK - 1) / kBlockK);
  const int64_t block_k =
      (p.x_stride / kStep + num_k_blocks - 1) / num_k_blocks * kStep;
  const int64_t block_bytes = kBlockRows * p.k * sizeof(T);
  for (int64_t n = p.n_begin; n < p.n_end; n += kBlockRows) {
    const int64_t count = std::min(kBlockRows, p.n_end - n);
    const BlockEnds block(p, n, count);
    for (int64_t block_index = 0; block_index < num_k_blocks; ++block_index) {
      const int64_t k0 = block_index * block_k;
      const int64_t k = std::min(block_k, p.k - k0);
      const int64_t packed_k = (k + kStep - 1) / kStep * kStep;
      const T* from = w + n * p.k + k0;
      if constexpr (kPack) {
        PackBlock<Loader>(from, p.k, count, k, packed, packed_k);
      }
      int64_t panel;
      for (int64_t m = 0; m < p.rows; m += panel) {
        panel = PanelRows(p.rows - m);
        const float* x = p.x + m * p.x_stride + k0;
        for (int64_t g = 0; g < count; g += kTileRows) {
          const int64_t columns = std::min<int64_t>(kTileRows, count - g);
          const bool is_last = block_index == num_k_blocks - 1;
          float* kept = sums + (g * p.rows + m * kTileRows) * kLanes;
          const float* in = k0 == 0 ? kNoSums : kept;
          float* out = is_last ? tile_sums : kept;
          if constexpr (kPack) {
            const RowPointers<float> rows(packed + g * packed_k, packed_k,
                                          columns);
            RunTile<LoadF32, Ahead::kNothing>(panel, rows.at, packed_k, x,
                                              p.x_stride, nullptr, in, out);
          } else {
            const RowPointers<T> rows(from + g * p.k, p.k, columns);
            if (m == 0) {
              RunTile<Loader, Ahead::kIntoL2>(
                  panel, rows.at, k, x, p.x_stride,
                  reinterpret_cast<const char*>(rows.at[0]) + block_bytes, in,
                  out);
            } else {
              RunTile<Loader, Ahead::kNothing>(panel, rows.at, k, x, p.x_stride,
                                               nullptr, in, out);
            }
          }
          if (is_last)
            FinishTile(out, panel, OutAt(p, block, m, n, g, columns));
        }
      }
    }
  }
}

template <class Loader>
void RunEncoding(const LinearPart& p) {
  if (p.rows > kMaxPanel) {
    return p.rows < kMinRowsToPack ? Blocked<Loader, false>(p)
                                   : Blocked<Loader, true>(p);
  }
  // Widening int8 leaves little time to wait for L2, so its next tile goes to
  // L1 while both fit there.
  if constexpr (sizeof(typename Loader::T) == 1) {
    if (kTileRows * p.k <= 8192) return Stream<Loader, Ahead::kIntoL1>(p);
  }
  Stream<Loader, Ahead::kIntoL2>(p);
}

void RunPart(const LinearPart& p) {
  switch (p.encoding) {
    case Encoding::kF32:
      return RunEncoding<LoadF32>(p);
    case Encoding::kF16:
      return RunEncoding<LoadF16>(p);
    case Encoding::kBF16:
      return RunEncoding<LoadBF16>(p);
    case Encoding::kI8Row:
      return RunEncoding<LoadI8>(p);
    default:
      DS_CHECK(false && "an encoding that CpuCheck let through");
  }
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {

HWY_EXPORT(Step);
HWY_EXPORT(PartScratchFloats);
HWY_EXPORT(PackX);
HWY_EXPORT(RunPart);

int64_t LinearStep() { return HWY_DYNAMIC_DISPATCH(Step)(); }

int64_t LinearXStride(int64_t k) {
  const int64_t step = LinearStep();
  return (k + step - 1) / step * step;
}

int64_t LinearPartScratchFloats(int64_t rows, int64_t k) {
  return HWY_DYNAMIC_DISPATCH(PartScratchFloats)(rows, k);
}

void LinearPackX(const float* x, int64_t k, Encoding encoding, float* packed) {
  HWY_DYNAMIC_DISPATCH(PackX)(x, k, encoding, packed);
}

void RunLinearPart(const LinearPart& part) {
  HWY_DYNAMIC_DISPATCH(RunPart)(part);
}

}  // namespace deepslice
#endif  // HWY_ONCE
