#include "tests/gpu/attention_batch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ref_util.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

// What no kernel may read, though it could be multiplied by 0.
constexpr double kForeign = 50;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Element of the cache in attention.h's layout.
struct CacheIndex {
  const AttentionShape& s;
  int64_t block_elements() const {
    return 2 * s.kv_heads * s.block_tokens * s.head_dim;
  }
  int64_t Key(int64_t block, int64_t kv, int64_t in_block, int64_t d) const {
    return block * block_elements() +
           (kv * s.block_tokens + in_block) * s.head_dim + d;
  }
  int64_t Value(int64_t block, int64_t kv, int64_t in_block, int64_t d) const {
    return block * block_elements() +
           s.kv_heads * s.block_tokens * s.head_dim +
           (kv * s.head_dim + d) * s.block_tokens + in_block;
  }
};

}  // namespace

void AttentionBatch::SetStrides(AttentionShape* s, bool fused, int64_t pad) {
  const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
  s->q_stride = fused ? q + 2 * kv + pad : q + pad;
  s->k_stride = fused ? s->q_stride : kv + pad;
  s->v_stride = fused ? s->q_stride : kv;
  s->out_stride = q;
}

int64_t AttentionBatch::Blocks(const GpuSequence& s) const {
  return CeilDiv(s.start + s.tokens, shape_.block_tokens);
}

// Of a product in float and a float sine.
double AttentionBatch::AngleError(int64_t position) const {
  return shape_.rotary_dim == 0 ? 0 : (position + 4) * 0x1p-23;
}

AttentionBatch::AttentionBatch(AttentionShape shape,
                               std::vector<GpuSequence> sequences,
                               double q_spread, bool fused)
    : shape_(shape),
      sequences_(std::move(sequences)),
      q_spread_(q_spread),
      fused_(fused) {
  Random random(shape.heads * 131 + shape.head_dim * 7 + sequences_.size());
  const int64_t dim = shape_.head_dim, kv_cols = shape_.kv_heads * dim;
  int32_t max_slot = 0;
  for (const GpuSequence& s : sequences_) {
    max_slot = std::max(max_slot, s.slot);
    blocks_per_seq_ = std::max(blocks_per_seq_, Blocks(s) + 1);
    num_blocks_ += Blocks(s);
  }
  num_blocks_ += 2;  // of nobody
  table_.assign((max_slot + 2) * blocks_per_seq_, 0);
  const std::vector<int32_t> order = random.Permutation(num_blocks_);
  int64_t used = 0;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const GpuSequence& s = sequences_[i];
    for (int64_t b = 0; b < Blocks(s); ++b) {
      table_[s.slot * blocks_per_seq_ + b] = order[used++];
    }
    for (int64_t t = 0; t < s.tokens; ++t) {
      positions_.push_back(static_cast<int32_t>(s.start + t));
      slots_.push_back(s.slot);
      sequence_of_.push_back(static_cast<int32_t>(i));
    }
  }
  q_ = random.Tensor(shape_.type, tokens() * shape_.heads * dim, q_spread);
  k_ = random.Tensor(shape_.type, tokens() * kv_cols, 1);
  v_ = random.Tensor(shape_.type, tokens() * kv_cols, 1);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < shape_.rotary_dim / 2; ++i) {
    frequencies.push_back(std::pow(10000.0, -2.0 * i / shape_.rotary_dim));
  }
  freqs_ = Encode(DType::kF32, frequencies);
  if (shape_.alibi.has_value()) {
    // No powers of 2: Falcon's rounding shows.
    std::vector<double> slopes;
    for (int64_t h = 0; h < shape_.heads; ++h) {
      slopes.push_back(std::pow(2.0, -7.3 * (h + 1) / shape_.heads));
    }
    slopes_ = Encode(DType::kF32, slopes);
  }
  if (shape_.relative.has_value()) {
    slopes_ = random.Tensor(shape_.relative->type,
                            shape_.heads * shape_.relative->buckets, 2);
  }

  const CacheIndex index{shape_};
  std::vector<double> cache(num_blocks_ * index.block_elements(), kForeign);
  for (const GpuSequence& s : sequences_) {
    HostTensor k = random.Tensor(shape_.cache, s.start * kv_cols, 1);
    HostTensor v = random.Tensor(shape_.cache, s.start * kv_cols, 1);
    for (int64_t p = 0; p < s.start; ++p) {
      const int64_t block =
          table_[s.slot * blocks_per_seq_ + p / shape_.block_tokens];
      for (int64_t h = 0; h < shape_.kv_heads; ++h) {
        for (int64_t d = 0; d < dim; ++d) {
          const int64_t in_block = p % shape_.block_tokens;
          const int64_t at = p * kv_cols + h * dim + d;
          cache[index.Key(block, h, in_block, d)] = k.values[at];
          cache[index.Value(block, h, in_block, d)] = v.values[at];
        }
      }
    }
    cached_.push_back({std::move(k.values), std::move(v.values)});
  }
  before_ = Encode(shape_.cache, cache);

  const auto rotate = [&](int64_t t, double* head) {
    RefRotateHead(positions_[t], freqs_.values.data(), shape_.rotary_dim,
                  shape_.style, shape_.rope_scale, head);
  };
  rotated_ = q_.values;
  for (int64_t t = 0; t < tokens(); ++t) {
    for (int64_t h = 0; h < shape_.heads; ++h) {
      rotate(t, rotated_.data() + (t * shape_.heads + h) * dim);
    }
    std::vector<double> k(k_.values.begin() + t * kv_cols,
                          k_.values.begin() + (t + 1) * kv_cols);
    for (int64_t h = 0; h < shape_.kv_heads; ++h) rotate(t, k.data() + h * dim);
    const std::vector<double> v(v_.values.begin() + t * kv_cols,
                                v_.values.begin() + (t + 1) * kv_cols);
    Cached& to = cached_[sequence_of_[t]];
    for (double x : Encode(shape_.cache, k).values) to.k.push_back(x);
    for (double x : Encode(shape_.cache, v).values) to.v.push_back(x);
  }
}

std::vector<GpuParam> AttentionBatch::AddOperands(GpuCase* c) {
  const int64_t size = DTypeSize(shape_.type), dim = shape_.head_dim;
  const int64_t q_cols = shape_.heads * dim, kv_cols = shape_.kv_heads * dim;
  const auto lay = [&](const HostTensor& from, int64_t cols, int64_t stride,
                       int64_t first, std::vector<char>* to) {
    for (int64_t t = 0; t < tokens(); ++t) {
      std::copy_n(from.bytes.begin() + t * cols * size, cols * size,
                  to->begin() + (t * stride + first) * size);
    }
  };
  std::vector<GpuParam> params;
  if (fused_) {
    std::vector<char> rows(shape_.tokens * shape_.q_stride * size, '\xff');
    lay(q_, q_cols, shape_.q_stride, 0, &rows);
    lay(k_, kv_cols, shape_.q_stride, q_cols, &rows);
    lay(v_, kv_cols, shape_.q_stride, q_cols + kv_cols, &rows);
    const int at = c->AddBytes(std::move(rows));
    params = {GpuParam::At(at), GpuParam::At(at, q_cols * size),
              GpuParam::At(at, (q_cols + kv_cols) * size)};
  } else {
    const auto add = [&](const HostTensor& from, int64_t cols, int64_t stride) {
      std::vector<char> rows(shape_.tokens * stride * size, '\xff');
      lay(from, cols, stride, 0, &rows);
      params.push_back(GpuParam::At(c->AddBytes(std::move(rows))));
    };
    add(q_, q_cols, shape_.q_stride);
    add(k_, kv_cols, shape_.k_stride);
    add(v_, kv_cols, shape_.v_stride);
  }
  const auto add_ints = [&](std::vector<int32_t> values) {
    values.resize(shape_.tokens, 1 << 30);
    params.push_back(GpuParam::At(c->AddInts(values)));
  };
  add_ints(positions_);
  add_ints(slots_);
  params.push_back(GpuParam::At(c->AddInts(table_)));
  params.push_back(shape_.rotary_dim > 0 ? GpuParam::At(c->Add(freqs_))
                                         : GpuParam::Null());
  state_ = c->Add(before_);
  params.push_back(GpuParam::At(state_));
  return params;
}

double AttentionBatch::Score(double dot, int64_t h, int64_t p,
                             int64_t own) const {
  double score = dot * shape_.scale;
  if (shape_.softcap > 0) {
    score = shape_.softcap * std::tanh(score / shape_.softcap);
  }
  if (shape_.alibi.has_value()) {
    const RefTensor slopes = {{shape_.heads}, slopes_.values};
    RefAttentionParams params = {};
    params.scale = shape_.scale;
    params.alibi = *shape_.alibi;
    params.slopes = &slopes;
    score += RefAlibi(params, h, p, own);
  }
  if (shape_.relative.has_value()) {
    const RelativeBiasShape& r = *shape_.relative;
    score += slopes_.values[h * r.buckets +
                            RelativeBucket(p - own, r.buckets, r.max_distance,
                                           /*both_directions=*/false)];
  }
  return score;
}

GpuCheck AttentionBatch::OutputCheck(int out) const {
  GpuCheck check = {out, shape_.type};
  check.want.assign(shape_.tokens * shape_.out_stride, kUntouched);
  check.allowed.assign(check.want.size(), 0);
  const int64_t dim = shape_.head_dim, kv_cols = shape_.kv_heads * dim;
  const double unit = UnitRoundoff(shape_.type);
  for (int64_t t = 0; t < tokens(); ++t) {
    const Cached& cached = cached_[sequence_of_[t]];
    const int64_t end = positions_[t] + 1;
    const int64_t begin =
        shape_.window > 0 ? std::max<int64_t>(0, end - shape_.window) : 0;
    // Of 16-bit queries, weights and a float angle; scores have the spread of q
    // when scale is 1 / sqrt(head_dim).
    double off = 0x1p-18 + 0x1p-20 * shape_.softcap;
    if (q_spread_ > 0 || has_slopes()) {
      off += unit * (5 * q_spread_ + 2) +
             10 * q_spread_ * AngleError(positions_[t]) +
             0x1p-21 * q_spread_ * std::sqrt(static_cast<double>(dim));
    }
    for (int64_t h = 0; h < shape_.heads; ++h) {
      const int64_t kv = (shape_.head_offset + h) / shape_.group * dim;
      const double* q = rotated_.data() + (t * shape_.heads + h) * dim;
      std::vector<double> scores(end - begin), sums(dim, 0);
      double top = -1e300, total = 0;
      for (int64_t p = begin; p < end; ++p) {
        double dot = 0;
        const double* k = cached.k.data() + p * kv_cols + kv;
        for (int64_t d = 0; d < dim; ++d) dot += q[d] * k[d];
        scores[p - begin] = Score(dot, h, p, positions_[t]);
        top = std::max(top, scores[p - begin]);
      }
      for (int64_t p = begin; p < end; ++p) {
        const double weight = std::exp(scores[p - begin] - top);
        total += weight;
        const double* v = cached.v.data() + p * kv_cols + kv;
        for (int64_t d = 0; d < dim; ++d) sums[d] += weight * v[d];
      }
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t at = t * shape_.out_stride + h * dim + d;
        const double want = sums[d] / total;
        check.want[at] = want;
        check.allowed[at] = off + 1.5 * RoundingOf(shape_.type, want);
      }
    }
  }
  return check;
}

GpuCheck AttentionBatch::RotatedCheck(int buffer) const {
  const int64_t cols = shape_.heads * shape_.head_dim;
  GpuCheck check = {buffer, shape_.type};
  check.want.assign(shape_.tokens * cols, kUntouched);
  check.allowed.assign(check.want.size(), 0);
  for (int64_t t = 0; t < tokens(); ++t) {
    for (int64_t i = t * cols; i < (t + 1) * cols; ++i) {
      check.want[i] = rotated_[i];
      check.allowed[i] =
          shape_.rotary_dim == 0
              ? 0
              : RoundingOf(shape_.type, rotated_[i]) +
                    q_spread_ * (3 * AngleError(positions_[t]) + 0x1p-20);
    }
  }
  return check;
}

GpuCheck AttentionBatch::StateCheck() const {
  GpuCheck check = {state_, shape_.cache, before_.values};
  check.allowed.assign(check.want.size(), 0);
  const CacheIndex index{shape_};
  const int64_t dim = shape_.head_dim, kv_cols = shape_.kv_heads * dim;
  for (int64_t t = 0; t < tokens(); ++t) {
    const int64_t p = positions_[t];
    const Cached& cached = cached_[sequence_of_[t]];
    const int64_t block =
        table_[slots_[t] * blocks_per_seq_ + p / shape_.block_tokens];
    for (int64_t i = 0; i < kv_cols; ++i) {
      const int64_t in_block = p % shape_.block_tokens;
      const int64_t k_at = index.Key(block, i / dim, in_block, i % dim);
      const double k = cached.k[p * kv_cols + i];
      check.want[k_at] = k;
      // The reference's was rounded, too: it may lie on the other side.
      if (shape_.rotary_dim > 0) {
        check.allowed[k_at] =
            2 * RoundingOf(shape_.cache, k) + 3 * AngleError(p) + 0x1p-20;
      }
      check.want[index.Value(block, i / dim, in_block, i % dim)] =
          cached.v[p * kv_cols + i];
    }
  }
  return check;
}

std::vector<int32_t> AttentionBatch::Tiles(int64_t tile_tokens) const {
  std::vector<int32_t> tiles;
  int64_t first = 0;
  for (const GpuSequence& s : sequences_) {
    for (int64_t t = 0; t < s.tokens; t += tile_tokens) {
      for (const int64_t v : {first + t, std::min(tile_tokens, s.tokens - t),
                              int64_t{s.slot}, s.start + t}) {
        tiles.push_back(static_cast<int32_t>(v));
      }
    }
    first += s.tokens;
  }
  return tiles;
}

StepInfo AttentionBatch::info() const {
  StepInfo info = {};
  info.tokens = static_cast<int32_t>(tokens());
  info.rows = 1 << 20;
  info.tiles = 1 << 20;
  info.blocks_per_seq = static_cast<int32_t>(blocks_per_seq_);
  return info;
}

}  // namespace deepslice
