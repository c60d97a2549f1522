// Truth for Attention: append k and v, then softmax over the visible keys.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/relative_bucket.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status CheckRefHeads(const RefAttentionParams& a) {
  const bool covered =
      a.heads == 0 || (a.group > 0 && a.head_offset >= 0 &&
                       (a.head_offset + a.heads - 1) / a.group < a.kv_heads);
  if (!covered || a.heads < 0 || a.kv_heads < 0 || a.head_dim < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        a.op, ": ", a.heads, " heads in groups of ", a.group, " from offset ",
        a.head_offset, ", ", a.kv_heads, " KV heads of ", a.head_dim,
        "; every query head needs a KV head"));
  }
  if (a.slopes != nullptr) {
    DS_RETURN_IF_ERROR(CheckRefShape(a.op, "slopes", a.slopes, {a.heads}));
  }
  if (a.rel_bias == nullptr) return absl::OkStatus();
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "rel_bias", a.rel_bias, {a.heads, -1}));
  if (AreRelativeBuckets(a.rel_bias->cols(), a.max_distance,
                         a.both_directions)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(a.op, ": ", a.rel_bias->cols(), " buckets up to distance ",
                   a.max_distance, "; more distance than buckets is allowed"));
}

absl::Status CheckRefAttention(const RefAttentionParams& a,
                               const RefTensor* positions,
                               const RefTensor* slots, const RefTensor* blocks,
                               int64_t tokens, const RefState* state) {
  DS_RETURN_IF_ERROR(CheckRefHeads(a));
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "positions", positions, {tokens}));
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "slots", slots, {tokens}));
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "blocks", blocks, {-1, -1}));
  if (state == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(a.op, ": no state; give the layer's RefState"));
  }
  return absl::OkStatus();
}

double RefAlibi(const RefAttentionParams& a, int64_t head, int64_t key,
                int64_t own) {
  const double slope = a.slopes->data[head];
  if (a.alibi == Alibi::kPlain) {
    return slope * static_cast<double>(key - own);
  }
  const auto round = [](double x) {
    return BF16ToFloat(FloatToBF16(static_cast<float>(x)));
  };
  const float rounded = round(slope);
  return a.scale * (round(rounded * static_cast<float>(key)) -
                    round(rounded * static_cast<float>(own)));
}

void AttendRef(const RefAttentionParams& a, const double* q, int64_t own,
               const std::vector<RefKey>& keys, double* y) {
  const int64_t value_dim = a.value_dim > 0 ? a.value_dim : a.head_dim;
  for (int64_t h = 0; h < a.heads; ++h, q += a.head_dim, y += value_dim) {
    const int64_t kv = (a.head_offset + h) / a.group * a.head_dim;
    std::vector<double> weights;
    double most = -std::numeric_limits<double>::infinity();
    for (const RefKey& k : keys) {
      double dot = 0;
      for (int64_t d = 0; d < a.head_dim; ++d) dot += q[d] * k.key[kv + d];
      double score = dot * a.scale;
      if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
      if (a.slopes != nullptr) score += RefAlibi(a, h, k.position, own);
      if (a.rel_bias != nullptr) {
        score += a.rel_bias->row(h)[RelativeBucket(
            k.position - own, a.rel_bias->cols(), a.max_distance,
            a.both_directions)];
      }
      weights.push_back(score);
      most = std::max(most, score);
    }
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - most);
    for (size_t i = 0; i < keys.size(); ++i) {
      for (int64_t d = 0; d < value_dim; ++d) {
        y[d] += weights[i] / sum * keys[i].value[kv + d];
      }
    }
  }
}

void RunRefAttention(const RefAttentionParams& a, const RefTensor& q,
                     const RefTensor& k, const RefTensor& v,
                     const RefTensor& positions, const RefTensor& slots,
                     RefState* state, RefTensor* out) {
  const int64_t tokens = positions.rows();
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t slot = static_cast<int64_t>(slots.data[t]);
    const int64_t position = static_cast<int64_t>(positions.data[t]);
    state->keys[slot][position].assign(k.row(t), k.row(t) + k.cols());
    state->values[slot][position].assign(v.row(t), v.row(t) + v.cols());
  }
  const int64_t value_dim = a.value_dim > 0 ? a.value_dim : a.head_dim;
  ResizeRef({tokens, a.heads * value_dim}, out);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t slot = static_cast<int64_t>(slots.data[t]);
    const int64_t last = static_cast<int64_t>(positions.data[t]);
    const auto& keys = state->keys[slot];
    const auto& values = state->values[slot];
    const auto first =
        a.window > 0 ? keys.upper_bound(last - a.window) : keys.begin();
    const auto end = keys.upper_bound(last);
    std::vector<RefKey> seen;
    for (auto key = first; key != end; ++key) {
      seen.push_back(
          {key->first, key->second.data(), values.at(key->first).data()});
    }
    AttendRef(a, q.row(t), last, seen,
              out->data.data() + t * a.heads * value_dim);
  }
}

absl::Status RefAttention(const RefCall& call, RefTensor* out) {
  using O = operand::Attention;
  using A = attr::Attention;
  const Attr* attrs = call.attrs;
  RefAttentionParams a = {"attention",
                                attrs[A::heads].i,
                                attrs[A::kv_heads].i,
                                attrs[A::group].i,
                                attrs[A::head_offset].i,
                                attrs[A::head_dim].i,
                                attrs[A::window].i,
                                attrs[A::scale].f,
                                attrs[A::softcap].f,
                                static_cast<Alibi>(attrs[A::alibi].i),
                                call.maybe(O::slopes)};
  a.rel_bias = call.maybe(O::rel_bias);
  a.max_distance = attrs[A::max_distance].i;
  const RefTensor* q = call.maybe(O::q);
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "q", q, {-1, a.heads * a.head_dim}));
  const int64_t tokens = q->rows();
  for (int i : {O::k, O::v}) {
    DS_RETURN_IF_ERROR(CheckRefShape(a.op, i == O::k ? "k" : "v", call.maybe(i),
                                     {tokens, a.kv_heads * a.head_dim}));
  }
  DS_RETURN_IF_ERROR(
      CheckRefAttention(a, call.maybe(O::positions), call.maybe(O::slots),
                        call.maybe(O::blocks), tokens, call.state));
  RunRefAttention(a, *q, call.in(O::k), call.in(O::v), call.in(O::positions),
                  call.in(O::slots), call.state, out);
  return absl::OkStatus();
}

}  // namespace deepslice
