// Decode path: the query heads of one token that share a KV head against a
// chunk of keys, straight from the blocks. Once per Highway target.
#if defined(DEEPSLICE_KERNELS_ATTENTION_DECODE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_ATTENTION_DECODE_INL_H_
#undef DEEPSLICE_KERNELS_ATTENTION_DECODE_INL_H_
#else
#define DEEPSLICE_KERNELS_ATTENTION_DECODE_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/act-inl.h"
#include "kernels/attention_cpu.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void StoreSums(FloatVec a, FloatVec b, FloatVec c, FloatVec e,
                          float* to) {
  to[0] = hn::GetLane(a);
  to[1] = hn::GetLane(b);
  to[2] = hn::GetLane(c);
  to[3] = hn::GetLane(e);
}
#else
using Floats4 = hn::FixedTag<float, 4>;

// Adds the 128-bit parts of a vector.
template <class D>
HWY_INLINE hn::Vec<Floats4> FoldParts(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return FoldParts(half,
                     hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// to[0, 4) = the sums over lanes of the four vectors.
HWY_INLINE void StoreSums(FloatVec a, FloatVec b, FloatVec c, FloatVec e,
                          float* to) {
  const Floats d;
  const hn::RepartitionToWide<Floats> d64;
  // Per 128-bit part: a02 b02 a13 b13, the same of c and e, then all four.
  const auto ab =
      hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce =
      hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab64 = hn::BitCast(d64, ab), ce64 = hn::BitCast(d64, ce);
  const auto low = hn::BitCast(d, hn::InterleaveLower(d64, ab64, ce64));
  const auto high = hn::BitCast(d, hn::InterleaveUpper(d64, ab64, ce64));
  hn::StoreU(FoldParts(d, hn::Add(low, high)), Floats4(), to);
}
#endif  // HWY_SCALAR

// scores[h * score_stride + j] = q[h] . keys[j] for four keys. q is padded
// with zeros to whole vectors.
template <int kHeads, typename T>
HWY_INLINE void ScoreFourKeys(const float* q, int64_t q_stride,
                              const T* const keys[4], int64_t head_dim,
                              float* scores, int64_t score_stride) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  FloatVec sums[kHeads][4];
  for (int h = 0; h < kHeads; ++h) {
    for (int j = 0; j < 4; ++j) sums[h][j] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + lanes <= head_dim; i += lanes) {
    const FloatVec k0 = LoadFloat(d, keys[0] + i);
    const FloatVec k1 = LoadFloat(d, keys[1] + i);
    const FloatVec k2 = LoadFloat(d, keys[2] + i);
    const FloatVec k3 = LoadFloat(d, keys[3] + i);
    for (int h = 0; h < kHeads; ++h) {
      const FloatVec x = hn::LoadU(d, q + h * q_stride + i);
      sums[h][0] = hn::MulAdd(x, k0, sums[h][0]);
      sums[h][1] = hn::MulAdd(x, k1, sums[h][1]);
      sums[h][2] = hn::MulAdd(x, k2, sums[h][2]);
      sums[h][3] = hn::MulAdd(x, k3, sums[h][3]);
    }
  }
  if (i < head_dim) {
    for (int j = 0; j < 4; ++j) {
      const FloatVec k = LoadSome(d, keys[j] + i, head_dim - i);
      for (int h = 0; h < kHeads; ++h) {
        const FloatVec x = hn::LoadU(d, q + h * q_stride + i);
        sums[h][j] = hn::MulAdd(x, k, sums[h][j]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    StoreSums(sums[h][0], sums[h][1], sums[h][2], sums[h][3],
              scores + h * score_stride);
  }
}

// Scores of `n` keys whose rows follow each other. Writes up to 3 more.
template <typename T>
void ScoreKeys(const float* q, int64_t q_stride, int64_t heads, const T* keys,
               int64_t n, int64_t head_dim, float* scores,
               int64_t score_stride) {
  for (int64_t j = 0; j < n; j += 4) {
    const T* rows[4];
    for (int64_t r = 0; r < 4; ++r) {
      rows[r] = keys + std::min(j + r, n - 1) * head_dim;
    }
    // At most 3 heads at a time: 12 sums fit into 16 registers.
    for (int64_t h = 0; h < heads;) {
      const float* x = q + h * q_stride;
      float* s = scores + h * score_stride + j;
      const int64_t left = heads - h;
      if (left == 3 || left > 4) {
        ScoreFourKeys<3>(x, q_stride, rows, head_dim, s, score_stride);
        h += 3;
      } else if (left >= 2) {
        ScoreFourKeys<2>(x, q_stride, rows, head_dim, s, score_stride);
        h += 2;
      } else {
        ScoreFourKeys<1>(x, q_stride, rows, head_dim, s, score_stride);
        h += 1;
      }
    }
  }
}

// sums[h][i..] += p[h][j] * values[j][i..] over n keys, for kVecs vectors.
template <int kHeads, int kVecs, typename T>
HWY_INLINE void AddValueVectors(const float* p, int64_t p_stride,
                                const T* values, int64_t n, int64_t head_dim,
                                float* sums, int64_t sum_stride) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  FloatVec acc[kHeads][kVecs];
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kVecs; ++i) {
      acc[h][i] = hn::LoadU(d, sums + h * sum_stride + i * lanes);
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    for (int i = 0; i < kVecs; ++i) {
      const FloatVec v = LoadFloat(d, values + j * head_dim + i * lanes);
      for (int h = 0; h < kHeads; ++h) {
        acc[h][i] = hn::MulAdd(hn::Set(d, p[h * p_stride + j]), v, acc[h][i]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kVecs; ++i) {
      hn::StoreU(acc[h][i], d, sums + h * sum_stride + i * lanes);
    }
  }
}

template <int kHeads, typename T>
HWY_INLINE void AddValuesOfHeads(const float* p, int64_t p_stride,
                                 const T* values, int64_t n, int64_t head_dim,
                                 float* sums, int64_t sum_stride) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  // 8 to 12 sums at once: enough to hide the latency of a multiply-add.
  constexpr int kVecs = kHeads == 1 ? 8 : 4;
  int64_t i = 0;
  for (; i + kVecs * lanes <= head_dim; i += kVecs * lanes) {
    AddValueVectors<kHeads, kVecs>(p, p_stride, values + i, n, head_dim,
                                   sums + i, sum_stride);
  }
  for (; i + lanes <= head_dim; i += lanes) {
    AddValueVectors<kHeads, 1>(p, p_stride, values + i, n, head_dim, sums + i,
                               sum_stride);
  }
  if (i == head_dim) return;
  for (int h = 0; h < kHeads; ++h) {
    float* s = sums + h * sum_stride + i;
    FloatVec acc = hn::LoadU(d, s);
    for (int64_t j = 0; j < n; ++j) {
      const FloatVec v = LoadSome(d, values + j * head_dim + i, head_dim - i);
      acc = hn::MulAdd(hn::Set(d, p[h * p_stride + j]), v, acc);
    }
    hn::StoreU(acc, d, s);
  }
}

template <typename T>
void AddValues(const float* p, int64_t p_stride, int64_t heads, const T* values,
               int64_t n, int64_t head_dim, float* sums, int64_t sum_stride) {
  for (int64_t h = 0; h < heads;) {
    const float* w = p + h * p_stride;
    float* s = sums + h * sum_stride;
    const int64_t left = heads - h;
    if (left == 3 || left > 4) {
      AddValuesOfHeads<3>(w, p_stride, values, n, head_dim, s, sum_stride);
      h += 3;
    } else if (left >= 2) {
      AddValuesOfHeads<2>(w, p_stride, values, n, head_dim, s, sum_stride);
      h += 2;
    } else {
      AddValuesOfHeads<1>(w, p_stride, values, n, head_dim, s, sum_stride);
      h += 1;
    }
  }
}

// Replaces n scores by e^(score - most); returns their sum. Lanes after n are
// overwritten up to a whole vector.
inline float Soften(float* scores, int64_t n, float* most) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  const FloatVec none = hn::Set(d, -HUGE_VALF);
  for (int64_t j = n; j % lanes != 0; ++j) scores[j] = -HUGE_VALF;
  FloatVec high = none;
  for (int64_t j = 0; j < n; j += lanes) {
    high = hn::Max(high, hn::LoadU(d, scores + j));
  }
  const FloatVec top = hn::MaxOfLanes(d, high);
  *most = hn::GetLane(top);
  FloatVec sum = hn::Zero(d);
  for (int64_t j = 0; j < n; j += lanes) {
    const FloatVec e = ExpFloat(d, hn::Sub(hn::LoadU(d, scores + j), top));
    hn::StoreU(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// A softmax over part of the keys: sums [heads, padded_dim] of e^(s - most) v,
// then per head `most` and the sum of e^(s - most).
struct Partial {
  float* sums;
  float* most;
  float* total;
  Partial(float* data, const AttentionLayout& l)
      : sums(data),
        most(data + l.heads_per_kv * l.padded_dim),
        total(most + l.heads_per_kv) {}
};

// What is done to the scores of a head's `n` keys from position `first` on, of
// the token at `position`: see Attention in ops.def. Up to a vector more is
// changed.
inline void ShapeScores(const AttentionArgs& args, int64_t head,
                        int64_t position, int64_t first, int64_t n,
                        float* scores) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  if (args.softcap > 0) {
    const FloatVec cap = hn::Set(d, args.softcap);
    const FloatVec over = hn::Set(d, 1 / args.softcap);
    for (int64_t j = 0; j < n; j += lanes) {
      const FloatVec u = hn::Mul(hn::LoadU(d, scores + j), over);
      hn::StoreU(hn::Mul(cap, TanhFloat(d, u)), d, scores + j);
    }
  }
  if (args.relative != nullptr) {
    const int64_t most = args.max_distance;
    const float* bias = args.relative + head * (2 * most + 1) + most;
    for (int64_t j = 0; j < n; ++j) {
      scores[j] += bias[std::clamp(first + j - position, -most, most)];
    }
  }
  if (args.slopes == nullptr) return;
  if (args.alibi == Alibi::kScaledBf16) {
    const auto round = [](float x) { return BF16ToFloat(FloatToBF16(x)); };
    const float rounded = round(args.slopes[head]);
    const float own = round(rounded * static_cast<float>(position));
    for (int64_t j = 0; j < n; ++j) {
      const float key = round(rounded * static_cast<float>(first + j));
      scores[j] += args.scale * (key - own);
    }
    return;
  }
  const FloatVec slope = hn::Set(d, args.slopes[head]);
  for (int64_t j = 0; j < n; j += lanes) {
    const FloatVec distance =
        hn::Iota(d, static_cast<float>(first + j - position));
    hn::StoreU(hn::MulAdd(slope, distance, hn::LoadU(d, scores + j)), d,
               scores + j);
  }
}

// Attends the heads of `kv` of the token at `position` to the keys [begin,
// end), at most a chunk. q is scaled and padded.
template <typename T>
void AttendChunk(const AttentionArgs& args, const AttentionLayout& layout,
                 int64_t slot, int64_t position, int64_t kv, int64_t heads,
                 int64_t begin, int64_t end, const float* q, float* scores,
                 Partial partial) {
  const int64_t score_stride = kAttentionChunk + 16;
  const int64_t dim = layout.padded_dim;
  for (int64_t p = begin; p < end;) {
    const int64_t n = args.Contiguous(p, end);
    ScoreKeys(q, dim, heads, args.Row<const T>(slot, p, kv, 0), n,
              args.head_dim, scores + (p - begin), score_stride);
    p += n;
  }
  for (int64_t h = 0; h < heads; ++h) {
    ShapeScores(args, args.FirstHead(kv) + h, position, begin, end - begin,
                scores + h * score_stride);
    partial.total[h] =
        Soften(scores + h * score_stride, end - begin, &partial.most[h]);
  }
  std::fill_n(partial.sums, heads * dim, 0.0f);
  for (int64_t p = begin; p < end;) {
    const int64_t n = args.Contiguous(p, end);
    AddValues(scores + (p - begin), score_stride, heads,
              args.Row<const T>(slot, p, kv, args.value_part), n, args.head_dim,
              partial.sums, dim);
    p += n;
  }
}

// into = into and `next` together.
inline void MergePartial(const AttentionLayout& layout, int64_t heads,
                         Partial next, Partial into) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t h = 0; h < heads; ++h) {
    const float most = std::max(into.most[h], next.most[h]);
    const FloatVec a = ExpFloat(d, hn::Set(d, into.most[h] - most));
    const FloatVec b = ExpFloat(d, hn::Set(d, next.most[h] - most));
    into.most[h] = most;
    into.total[h] =
        into.total[h] * hn::GetLane(a) + next.total[h] * hn::GetLane(b);
    float* x = into.sums + h * layout.padded_dim;
    const float* y = next.sums + h * layout.padded_dim;
    for (int64_t i = 0; i < layout.padded_dim; i += lanes) {
      const FloatVec scaled = hn::Mul(hn::LoadU(d, x + i), a);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, y + i), b, scaled), d, x + i);
    }
  }
}

// out = sums / total, for `heads` rows of head_dim floats.
inline void WriteHeads(const float* sums, int64_t sum_stride,
                       const float* totals, int64_t heads, int64_t head_dim,
                       float* out) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t h = 0; h < heads; ++h) {
    const FloatVec total = hn::Set(d, totals[h]);
    for (int64_t i = 0; i < head_dim; i += lanes) {
      const FloatVec v =
          hn::Div(hn::LoadU(d, sums + h * sum_stride + i), total);
      StoreSome(d, v, out + h * head_dim + i, head_dim - i);
    }
  }
}

// to [heads, padded_dim] = from [heads, head_dim] * scale, padded with zeros.
inline void ScaleHeads(const float* from, int64_t heads, int64_t head_dim,
                       float scale, int64_t padded_dim, float* to) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  const FloatVec factor = hn::Set(d, scale);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < padded_dim; i += lanes) {
      const int64_t n = head_dim - i;
      const FloatVec v =
          n > 0 ? LoadSome(d, from + h * head_dim + i, n) : hn::Zero(d);
      hn::StoreU(hn::Mul(v, factor), d, to + h * padded_dim + i);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_ATTENTION_DECODE_INL_H_
