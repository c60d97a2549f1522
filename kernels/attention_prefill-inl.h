// Prefill path: a tile of query rows (tokens x the heads that share a KV head)
// against tiles of keys with a running softmax. Once per Highway target.
#if defined(DEEPSLICE_KERNELS_ATTENTION_PREFILL_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_ATTENTION_PREFILL_INL_H_
#undef DEEPSLICE_KERNELS_ATTENTION_PREFILL_INL_H_
#else
#define DEEPSLICE_KERNELS_ATTENTION_PREFILL_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/attention_cpu.h"
#include "kernels/attention_decode-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// columns[i * kAttentionKeyStride + j] = keys[j * head_dim + i] for n keys;
// up to 3 more columns are overwritten.
#if HWY_TARGET == HWY_SCALAR
template <typename T>
void TransposeKeys(const T* keys, int64_t n, int64_t head_dim, float* columns) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < head_dim; ++i) {
      columns[i * kAttentionKeyStride + j] =
          hn::GetLane(LoadFloat(Floats(), keys + j * head_dim + i));
    }
  }
}
#else
template <typename T>
void TransposeKeys(const T* keys, int64_t n, int64_t head_dim, float* columns) {
  const Floats4 d;
  const hn::RepartitionToWide<Floats4> d64;
  for (int64_t j = 0; j < n; j += 4) {
    const T* rows[4];
    for (int64_t r = 0; r < 4; ++r) {
      rows[r] = keys + std::min(j + r, n - 1) * head_dim;
    }
    for (int64_t i = 0; i < head_dim; i += 4) {
      const int64_t left = head_dim - i;
      const auto a = LoadSome(d, rows[0] + i, left);
      const auto b = LoadSome(d, rows[1] + i, left);
      const auto c = LoadSome(d, rows[2] + i, left);
      const auto e = LoadSome(d, rows[3] + i, left);
      const auto ab0 = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
      const auto ab1 = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
      const auto ce0 = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
      const auto ce1 = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
      float* to = columns + i * kAttentionKeyStride + j;
      const auto store = [&](auto v, int64_t row) HWY_ATTR {
        if (row < left) {
          hn::StoreU(hn::BitCast(d, v), d, to + row * kAttentionKeyStride);
        }
      };
      store(hn::InterleaveLower(d64, ab0, ce0), 0);
      store(hn::InterleaveUpper(d64, ab0, ce0), 1);
      store(hn::InterleaveLower(d64, ab1, ce1), 2);
      store(hn::InterleaveUpper(d64, ab1, ce1), 3);
    }
  }
}
#endif  // HWY_SCALAR

// rows[j * padded_dim + i] = values[j * head_dim + i], zeros after head_dim.
template <typename T>
void CopyValues(const T* values, int64_t n, int64_t head_dim,
                int64_t padded_dim, float* rows) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < padded_dim; i += lanes) {
      const int64_t left = head_dim - i;
      const FloatVec v =
          left > 0 ? LoadSome(d, values + j * head_dim + i, left) : hn::Zero(d);
      hn::StoreU(v, d, rows + j * padded_dim + i);
    }
  }
}

// c[r][i] (+)= sum over k < depth of a[r][k] * b[k][i] for kAttentionRowGrain
// rows and kVecs vectors of columns; adds to c when kAdd.
template <int kVecs, bool kAdd>
HWY_INLINE void MultiplyBlock(const float* a, int64_t a_stride, const float* b,
                              int64_t b_stride, int64_t depth, float* c,
                              int64_t c_stride) {
  constexpr int kRows = kAttentionRowGrain;
  const Floats d;
  const int64_t lanes = FloatLanes();
  FloatVec sums[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kVecs; ++i) {
      sums[r][i] =
          kAdd ? hn::LoadU(d, c + r * c_stride + i * lanes) : hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    FloatVec row[kVecs];
    for (int i = 0; i < kVecs; ++i) {
      row[i] = hn::LoadU(d, b + k * b_stride + i * lanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const FloatVec x = hn::Set(d, a[r * a_stride + k]);
      for (int i = 0; i < kVecs; ++i) {
        sums[r][i] = hn::MulAdd(x, row[i], sums[r][i]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kVecs; ++i) {
      hn::StoreU(sums[r][i], d, c + r * c_stride + i * lanes);
    }
  }
}

// The same for `rows` rows (a multiple of the grain) and `cols` columns, which
// are rounded up to whole vectors.
template <bool kAdd>
void Multiply(const float* a, int64_t a_stride, const float* b,
              int64_t b_stride, int64_t depth, int64_t rows, int64_t cols,
              float* c, int64_t c_stride) {
  const int64_t lanes = FloatLanes();
  for (int64_t i = 0; i < cols;) {
    const bool two = i + lanes < cols;
    for (int64_t r = 0; r < rows; r += kAttentionRowGrain) {
      const float* x = a + r * a_stride;
      float* y = c + r * c_stride + i;
      if (two) {
        MultiplyBlock<2, kAdd>(x, a_stride, b + i, b_stride, depth, y,
                               c_stride);
      } else {
        MultiplyBlock<1, kAdd>(x, a_stride, b + i, b_stride, depth, y,
                               c_stride);
      }
    }
    i += two ? 2 * lanes : lanes;
  }
}

// One row's step of the running softmax: scores [0, cols) become
// e^(score - most) where low <= column < high and 0 elsewhere, up to a whole
// vector. Returns by what earlier sums must be multiplied.
inline float SoftenRow(float* scores, int64_t cols, int64_t low, int64_t high,
                       float* most, float* total) {
  const Floats d;
  const hn::Rebind<int32_t, Floats> di;
  const int64_t lanes = FloatLanes();
  if (low > 0 || high < (cols + lanes - 1) / lanes * lanes) {
    const auto from = hn::Set(di, static_cast<int32_t>(low));
    const auto to = hn::Set(di, static_cast<int32_t>(high));
    for (int64_t j = 0; j < cols; j += lanes) {
      const auto column = hn::Iota(di, static_cast<int32_t>(j));
      const auto seen = hn::AndNot(hn::VecFromMask(di, hn::Lt(column, from)),
                                   hn::VecFromMask(di, hn::Lt(column, to)));
      const auto mask = hn::RebindMask(d, hn::MaskFromVec(seen));
      const FloatVec s = hn::LoadU(d, scores + j);
      hn::StoreU(hn::IfThenElse(mask, s, hn::Set(d, -HUGE_VALF)), d,
                 scores + j);
    }
  }
  FloatVec top = hn::Set(d, *most);
  for (int64_t j = 0; j < cols; j += lanes) {
    top = hn::Max(top, hn::LoadU(d, scores + j));
  }
  top = hn::MaxOfLanes(d, top);
  FloatVec sum = hn::Zero(d);
  for (int64_t j = 0; j < cols; j += lanes) {
    const FloatVec e = ExpFloat(d, hn::Sub(hn::LoadU(d, scores + j), top));
    hn::StoreU(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  const float now = hn::GetLane(top);
  // Mostly the same: then nothing waits for e^0.
  const float factor =
      now == *most ? 1.0f
                   : hn::GetLane(ExpFloat(d, hn::Sub(hn::Set(d, *most), top)));
  *most = now;
  *total = *total * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  return factor;
}

inline void ScaleRow(float* row, int64_t n, float factor) {
  const Floats d;
  const FloatVec f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += FloatLanes()) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), f), d, row + i);
  }
}

// Attends `tokens` tokens from `first` (one sequence in state slot `slot`,
// consecutive positions) with the query heads of `kv`. A row's bits depend on its own position and
// the keys alone: key tiles start at multiples of their size, and a tile that
// a row does not see leaves its sums as they were.
template <typename T>
void AttendTile(const AttentionArgs& args, const AttentionLayout& layout,
                int64_t first, int64_t tokens, int64_t slot,
                int64_t first_position, int64_t kv, float* scratch) {
  const int64_t first_head = args.FirstHead(kv);
  const int64_t heads = args.FirstHead(kv + 1) - first_head;
  const int64_t head_dim = args.head_dim, dim = layout.padded_dim;
  const int64_t rows = tokens * heads;
  const int64_t padded_rows =
      (rows + kAttentionRowGrain - 1) / kAttentionRowGrain * kAttentionRowGrain;
  const int64_t q_cols = args.heads * head_dim;

  float* keys = scratch;  // [head_dim, kAttentionKeyStride]
  float* values = keys + head_dim * kAttentionKeyStride;
  float* q = values + kAttentionTileKeys * dim;  // [rows, dim]
  float* scores = q + layout.tile_rows * dim;    // [rows, tile keys]
  float* sums = scores + layout.tile_rows * kAttentionTileKeys;
  float* most = sums + layout.tile_rows * dim;  // [rows]
  float* total = most + layout.tile_rows;       // [rows]

  // Row t * heads + h is head h of token t.
  std::fill_n(q, padded_rows * dim, 0.0f);
  for (int64_t t = 0; t < tokens; ++t) {
    ScaleHeads(args.q + (first + t) * q_cols + first_head * head_dim, heads,
               head_dim, args.scale, dim, q + t * heads * dim);
  }
  std::fill_n(sums, padded_rows * dim, 0.0f);
  // Finite, so that a row that has seen no key yet stays at 0 without NaN.
  std::fill_n(most, padded_rows, -std::numeric_limits<float>::max());
  std::fill_n(total, padded_rows, 0.0f);

  const int64_t begin = args.FirstKey(first_position);
  const int64_t end = args.EndKey(first_position + tokens - 1);
  for (int64_t tile = begin / kAttentionTileKeys * kAttentionTileKeys;
       tile < end; tile += kAttentionTileKeys) {
    // Columns [low, high) of the tile are keys of this sequence.
    const int64_t low = std::max(begin - tile, int64_t{0});
    const int64_t high = std::min(end - tile, kAttentionTileKeys);
    for (int64_t p = tile + low; p < tile + high;) {
      const int64_t n = args.Contiguous(p, tile + high);
      TransposeKeys(args.Row<const T>(slot, p, kv, 0), n, head_dim,
                    keys + (p - tile));
      CopyValues(args.Row<const T>(slot, p, kv, args.value_part), n, head_dim,
                 dim, values + (p - tile) * dim);
      p += n;
    }
    Multiply<false>(q, dim, keys, kAttentionKeyStride, head_dim, padded_rows,
                    high, scores, kAttentionTileKeys);
    for (int64_t r = 0; r < padded_rows; ++r) {
      // Rows of padding see what the last token sees; nobody reads them.
      const int64_t position = first_position + std::min(r / heads, tokens - 1);
      ShapeScores(args, first_head + r % heads, position, tile, high,
                  scores + r * kAttentionTileKeys);
      const float factor =
          SoftenRow(scores + r * kAttentionTileKeys, high,
                    std::max(args.FirstKey(position) - tile, int64_t{0}),
                    std::min(args.EndKey(position) - tile, high), &most[r],
                    &total[r]);
      if (factor != 1.0f) ScaleRow(sums + r * dim, dim, factor);
    }
    Multiply<true>(scores + low, kAttentionTileKeys, values + low * dim, dim,
                   high - low, padded_rows, dim, sums, dim);
  }
  const int64_t value_dim = args.value_dim;
  for (int64_t t = 0; t < tokens; ++t) {
    WriteHeads(sums + t * heads * dim, dim, total + t * heads, heads, value_dim,
               args.out + ((first + t) * args.heads + first_head) * value_dim);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_ATTENTION_PREFILL_INL_H_
