// Truth for LatentAttention: Attention with the keys as values, cut short.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefLatentAttention(const RefCall& call, RefTensor* out) {
  using O = operand::LatentAttention;
  using A = attr::LatentAttention;
  RefAttentionParams a = {};
  a.op = "latent_attention";
  a.heads = call.attrs[A::heads].i;
  a.kv_heads = 1;
  a.group = std::max<int64_t>(1, a.heads);
  a.head_dim = call.attrs[A::head_dim].i;
  a.scale = call.attrs[A::scale].f;
  a.value_dim = call.attrs[A::value_dim].i;
  if (a.value_dim < 1 || a.value_dim > a.head_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat(a.op, ": value_dim ", a.value_dim, "; 1 to head_dim ",
                     a.head_dim, " are allowed"));
  }
  const RefTensor* q = call.maybe(O::q);
  DS_RETURN_IF_ERROR(CheckRefShape(a.op, "q", q, {-1, a.heads * a.head_dim}));
  const int64_t tokens = q->rows();
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "k", call.maybe(O::k), {tokens, a.head_dim}));
  DS_RETURN_IF_ERROR(
      CheckRefAttention(a, call.maybe(O::positions), call.maybe(O::slots),
                        call.maybe(O::blocks), tokens, call.state));
  RunRefAttention(a, *q, call.in(O::k), call.in(O::k), call.in(O::positions),
                  call.in(O::slots), call.state, out);
  return absl::OkStatus();
}

}  // namespace deepslice
