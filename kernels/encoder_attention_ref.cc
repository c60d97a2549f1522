// Truth for EncoderAttention: softmax over the keys of a token's own slot.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"
#include "schema/relative_bucket.h"

namespace deepslice {

absl::Status RefEncoderAttention(const RefCall& call, RefTensor* out) {
  using O = operand::EncoderAttention;
  using A = attr::EncoderAttention;
  const Attr* attrs = call.attrs;
  RefAttentionParams a = {
      "encoder_attention", attrs[A::heads].i,       attrs[A::kv_heads].i,
      attrs[A::group].i,   attrs[A::head_offset].i, attrs[A::head_dim].i,
      /*window=*/0,        attrs[A::scale].f,
      /*softcap=*/0};
  const bool full = static_cast<Mask>(attrs[A::mask].i) == Mask::kFull;
  a.rel_bias = call.maybe(O::rel_bias);
  a.max_distance = attrs[A::max_distance].i;
  a.both_directions = full;
  const RefTensor* q = call.maybe(O::q);
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "q", q, {-1, a.heads * a.head_dim}));
  const int64_t tokens = q->rows();
  for (int i : {O::k, O::v}) {
    DS_RETURN_IF_ERROR(CheckRefShape(a.op, i == O::k ? "k" : "v", call.maybe(i),
                                     {tokens, a.kv_heads * a.head_dim}));
  }
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "slots", call.maybe(O::slots), {tokens}));
  DS_RETURN_IF_ERROR(CheckRefHeads(a));
  const std::vector<double>& slots = call.in(O::slots).data;
  ResizeRef({tokens, a.heads * a.head_dim}, out);
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t begin = t, end = t + 1;
    while (begin > 0 && slots[begin - 1] == slots[t]) --begin;
    while (full && end < tokens && slots[end] == slots[t]) ++end;
    std::vector<RefKey> keys;
    for (int64_t s = begin; s < end; ++s) {
      keys.push_back({s, call.in(O::k).row(s), call.in(O::v).row(s)});
    }
    AttendRef(a, q->row(t), t, keys,
              out->data.data() + t * a.heads * a.head_dim);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
