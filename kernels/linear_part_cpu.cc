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
#include "hwy/foreach_target.h"  // IWYU pragma: keep

// Only after foreach_target.h.
#include "hwy/highway.h"
#include "kernels/linear_tile_cpu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {
namespace {

// A block of w as floats, kBlockRows x kBlockK, stays in L2. In L1 (32 KiB) lie
// kBlockX rows of x and the tile's rows of w, kBlockK of each.
constexpr int64_t kBlockRows = 32;
constexpr int64_t kBlockK = 640;
constexpr int64_t kBlockX = 2 * kMaxPanel;
// From these rows of x on, widening a block of w once is cheaper than in the
// tiles for every panel: int8 takes two instructions, the others one or none.
constexpr int64_t kMinRowsToPack = 40;
constexpr int64_t kMinRowsToPackI8 = 12;
// Rows of w that one row of x streams past at a time: as many sums as hide the
// latency of an addition.
constexpr int kLoneRows = 8;
static_assert(kBlockRows % kLoneRows == 0 && kLoneRows % kTileRows == 0 &&
              kBlockK % kStep == 0);
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

// The scale and bias of the rows [n, n + count), ones and zeros where absent
// and for the rows that complete a tile.
struct BlockEnds {
  HWY_ALIGN float scale[kBlockRows];
  HWY_ALIGN float bias[kBlockRows];

  BlockEnds(const LinearPart& p, int64_t n, int64_t count) {
    for (int64_t i = 0; i < count || i % kLoneRows != 0; ++i) {
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

// The tile of a panel of `rows` rows, 1 to kMaxPanel.
template <class Loader, Ahead kAhead>
void RunTile(int64_t rows, const typename Loader::T* w, int64_t w_stride,
             int64_t w_rows, int64_t k, const float* x, int64_t x_stride,
             const void* ahead, const float* sums_in, float* sums_out,
             const TileOut* to) {
#define DS_TILE(N)                             \
  case N:                                      \
    return Tile<Loader, N, kTileRows, kAhead>( \
        w, w_stride, w_rows, k, x, x_stride, ahead, sums_in, sums_out, to)
  switch (rows) {
    DS_TILE(1);
#if DS_LINEAR_MAX_PANEL >= 3
    DS_TILE(2);
    DS_TILE(3);
#endif
#if DS_LINEAR_MAX_PANEL >= 4
    DS_TILE(4);
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

// At most kMaxPanel rows of x: reads w once, as fast as it comes.
template <class Loader, int kRows, Ahead kAhead>
void Stream(const LinearPart& p) {
  using T = typename Loader::T;
  const T* w = static_cast<const T*>(p.w);
  const int64_t distance = kRows * p.k * static_cast<int64_t>(sizeof(T)) +
                           (kAhead == Ahead::kIntoL2 ? kAheadBytes : 0);
  for (int64_t n = p.n_begin; n < p.n_end; n += kRows) {
    const int64_t count = std::min<int64_t>(kRows, p.n_end - n);
    const T* first = w + n * p.k;
    const char* ahead = reinterpret_cast<const char*>(first) + distance;
    const BlockEnds ends(p, n, count);
    const TileOut to = OutAt(p, ends, 0, n, 0, count);
    if constexpr (kRows == kTileRows) {
      RunTile<Loader, kAhead>(p.rows, first, p.k, count, p.k, p.x, p.x_stride,
                              ahead, nullptr, nullptr, &to);
    } else {
      Tile<Loader, 1, kRows, kAhead>(first, p.k, count, p.k, p.x, p.x_stride,
                                     ahead, nullptr, nullptr, &to);
    }
  }
}

// Widens `count` rows of w, k elements each, to packed [count, stride] in step
// order, zeros after k.
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

// The part [k0, k0 + k) of the sums of rows [n, n + count) of w.
struct Block {
  int64_t n, count;
  int64_t k0, k;
  bool is_first, is_last;  // along k
};

// The tile of `panel` rows of x from m on and of w from row n + g of the block;
// `kept` holds the lane sums of the whole block between its parts.
template <class Loader, Ahead kAhead>
void RunBlockTile(const LinearPart& p, const Block& b, const BlockEnds& ends,
                  const typename Loader::T* w, int64_t w_stride, int64_t k,
                  int64_t m, int64_t panel, int64_t g, const void* ahead,
                  float* kept) {
  const int64_t columns = std::min<int64_t>(kTileRows, b.count - g);
  const TileOut to = OutAt(p, ends, m, b.n, g, columns);
  kept += (g * p.rows + m * kTileRows) * kLanes;
  RunTile<Loader, kAhead>(panel, w + g * w_stride, w_stride, columns, k,
                          p.x + m * p.x_stride + b.k0, p.x_stride, ahead,
                          b.is_first ? nullptr : kept, kept,
                          b.is_last ? &to : nullptr);
}

// Too few rows of x to widen w first: the tiles do, once per panel.
template <class Loader>
void RunBlockInPlace(const LinearPart& p, const Block& b, const BlockEnds& ends,
                     float* kept) {
  using T = typename Loader::T;
  const T* w = static_cast<const T*>(p.w) + b.n * p.k + b.k0;
  for (int64_t g = 0; g < b.count; g += kTileRows) {
    int64_t panel;
    for (int64_t m = 0; m < p.rows; m += panel) {
      panel = PanelRows(p.rows - m);
      // The first panels of all parts together fetch the next block; the others
      // "fetch" what is there.
      const T* ahead =
          m > 0 ? w + g * p.k
                : w + (g + kBlockRows) * p.k + (kTileRows - 1) * b.k0;
      RunBlockTile<Loader, Ahead::kIntoL2>(p, b, ends, w, p.k, b.k, m, panel, g,
                                           ahead, kept);
    }
  }
}

// Many rows of x: w is widened once, then met by kBlockX rows of x at a time,
// so that out is written along its rows.
template <class Loader>
void RunBlockPacked(const LinearPart& p, const Block& b, const BlockEnds& ends,
                    float* packed, float* kept) {
  const int64_t packed_k = (b.k + kStep - 1) / kStep * kStep;
  PackBlock<Loader>(
      static_cast<const typename Loader::T*>(p.w) + b.n * p.k + b.k0, p.k,
      b.count, b.k, packed, packed_k);
  int64_t block_x;
  for (int64_t m0 = 0; m0 < p.rows; m0 += block_x) {
    const int64_t left = p.rows - m0;
    block_x = left <= kBlockX + kMaxPanel ? left : kBlockX;
    for (int64_t g = 0; g < b.count; g += kTileRows) {
      int64_t panel;
      for (int64_t m = m0; m < m0 + block_x; m += panel) {
        panel = PanelRows(m0 + block_x - m);
        RunBlockTile<LoadF32, Ahead::kNothing>(
            p, b, ends, packed, packed_k, packed_k, m, panel, g, nullptr, kept);
      }
    }
  }
}

template <class Loader>
void RunBlocks(const LinearPart& p) {
  const int64_t parts =
      std::max<int64_t>(1, (p.x_stride + kBlockK - 1) / kBlockK);
  const int64_t part_k = (p.x_stride / kStep + parts - 1) / parts * kStep;
  const int64_t min_rows_to_pack =
      sizeof(typename Loader::T) == 1 ? kMinRowsToPackI8 : kMinRowsToPack;
  float* packed = p.scratch;
  float* kept = p.scratch + kBlockRows * kBlockK;
  for (int64_t n = p.n_begin; n < p.n_end; n += kBlockRows) {
    const int64_t count = std::min(kBlockRows, p.n_end - n);
    const BlockEnds ends(p, n, count);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t k0 = i * part_k;
      const Block block = {.n = n,
                           .count = count,
                           .k0 = k0,
                           .k = std::min(part_k, p.k - k0),
                           .is_first = i == 0,
                           .is_last = i == parts - 1};
      if (p.rows < min_rows_to_pack) {
        RunBlockInPlace<Loader>(p, block, ends, kept);
      } else {
        RunBlockPacked<Loader>(p, block, ends, packed, kept);
      }
    }
  }
}

template <class Loader, Ahead kAhead>
void RunStream(const LinearPart& p) {
  if (p.rows == 1) return Stream<Loader, kLoneRows, kAhead>(p);
  Stream<Loader, kTileRows, kAhead>(p);
}

template <class Loader>
void RunEncoding(const LinearPart& p) {
  if (p.rows > kMaxPanel) return RunBlocks<Loader>(p);
  // Widening int8 leaves little time to wait for L2, so its next tile goes to
  // L1 while both fit there.
  if constexpr (sizeof(typename Loader::T) == 1) {
    if (p.k <= 2048) return RunStream<Loader, Ahead::kIntoL1>(p);
  }
  RunStream<Loader, Ahead::kIntoL2>(p);
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
