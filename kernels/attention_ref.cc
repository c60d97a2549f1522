// Truth for Attention: append k and v, then softmax over the visible keys.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status CheckRefAttention(const RefAttentionParams& a,
                               const RefTensor* positions,
                               const RefTensor* slots, const RefTensor* blocks,
                               int64_t tokens, const RefState* state) {
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
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t kv = (a.head_offset + h) / a.group * a.head_dim;
      const double* query = q.row(t) + h * a.head_dim;
      std::vector<double> weights;
      double most = -std::numeric_limits<double>::infinity();
      for (auto key = first; key != end; ++key) {
        double dot = 0;
        for (int64_t d = 0; d < a.head_dim; ++d) {
          dot += query[d] * key->second[kv + d];
        }
        double score = dot * a.scale;
        if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
        if (a.slopes != nullptr) {
          score += RefAlibi(a, h, key->first, last);
        }
        weights.push_back(score);
        most = std::max(most, weights.back());
      }
      double sum = 0;
      for (double& w : weights) sum += w = std::exp(w - most);
      double* y = out->data.data() + (t * a.heads + h) * value_dim;
      size_t i = 0;
      for (auto key = first; key != end; ++key, ++i) {
        const std::vector<double>& value = values.at(key->first);
        for (int64_t d = 0; d < value_dim; ++d) {
          y[d] += weights[i] / sum * value[kv + d];
        }
      }
    }
  }
}

absl::Status RefAttention(const RefCall& call, RefTensor* out) {
  using O = operand::Attention;
  using A = attr::Attention;
  const Attr* attrs = call.attrs;
  const RefAttentionParams a = {"attention",
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
