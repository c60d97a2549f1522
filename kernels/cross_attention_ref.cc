// Truth for CrossAttention: a decoder's tokens over the keys of an encoder.
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefCrossAttention(const RefCall& call, RefTensor* out) {
  using O = operand::CrossAttention;
  using A = attr::CrossAttention;
  const Attr* attrs = call.attrs;
  const RefAttentionParams a = {
      "cross_attention", attrs[A::heads].i,       attrs[A::kv_heads].i,
      attrs[A::group].i, attrs[A::head_offset].i, attrs[A::head_dim].i,
      /*window=*/0,      attrs[A::scale].f,
      /*softcap=*/0};
  const RefTensor* q = call.maybe(O::q);
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "q", q, {-1, a.heads * a.head_dim}));
  const int64_t tokens = q->rows();
  const RefTensor* k = call.maybe(O::k);
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "k", k, {-1, a.kv_heads * a.head_dim}));
  const int64_t sources = k->rows();
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "v", call.maybe(O::v),
                                   {sources, a.kv_heads * a.head_dim}));
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "slots", call.maybe(O::slots), {tokens}));
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "source_positions",
                                   call.maybe(O::source_positions), {sources}));
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "source_slots",
                                   call.maybe(O::source_slots), {sources}));
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "sources", call.maybe(O::sources), {-1, 2}));
  DS_RETURN_IF_ERROR(CheckRefHeads(a));
  if (call.state == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(a.op, ": no state; give the layer's RefState"));
  }
  for (int64_t s = 0; s < sources; ++s) {
    const auto slot = static_cast<int64_t>(call.in(O::source_slots).data[s]);
    const auto at = static_cast<int64_t>(call.in(O::source_positions).data[s]);
    const double* key = k->row(s);
    const double* value = call.in(O::v).row(s);
    call.state->keys[slot][at].assign(key, key + k->cols());
    call.state->values[slot][at].assign(value, value + k->cols());
  }
  ResizeRef({tokens, a.heads * a.head_dim}, out);
  for (int64_t t = 0; t < tokens; ++t) {
    const auto slot = static_cast<int64_t>(call.in(O::slots).data[t]);
    if (slot < 0 || slot >= call.in(O::sources).rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat(a.op, ": slot ", slot, " has no row in sources"));
    }
    const double* source = call.in(O::sources).row(slot);
    const auto& keys = call.state->keys[static_cast<int64_t>(source[0])];
    const auto& values = call.state->values[static_cast<int64_t>(source[0])];
    std::vector<RefKey> seen;
    for (const auto& [position, key] : keys) {
      if (position >= static_cast<int64_t>(source[1])) break;
      seen.push_back({position, key.data(), values.at(position).data()});
    }
    AttendRef(a, q->row(t), 0, seen,
              out->data.data() + t * a.heads * a.head_dim);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
