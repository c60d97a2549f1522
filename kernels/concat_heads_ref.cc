// Truth for ConcatHeads: each head's part of a, then of b.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefConcatHeads(const RefCall& call, RefTensor* out) {
  using In = operand::ConcatHeads;
  const int64_t heads = call.attrs[attr::ConcatHeads::heads].i;
  const RefTensor* a = call.maybe(In::a);
  DS_RETURN_IF_ERROR(CheckRefShape("concat_heads", "a", a, {-1, -1}));
  const RefTensor* b = call.maybe(In::b);
  DS_RETURN_IF_ERROR(CheckRefShape("concat_heads", "b", b, {a->rows(), -1}));
  const int64_t n = std::max<int64_t>(1, heads);
  if (heads < 0 || a->cols() % n != 0 || b->cols() % n != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("concat_heads: ", heads, " heads of ", a->cols(), " and ",
                     b->cols(), " columns; a divisor is needed"));
  }
  const int64_t of_a = a->cols() / n, of_b = b->cols() / n;
  ResizeRef({a->rows(), a->cols() + b->cols()}, out);
  double* to = out->data.data();
  for (int64_t t = 0; t < a->rows(); ++t) {
    for (int64_t h = 0; h < n; ++h) {
      to = std::copy_n(a->row(t) + h * of_a, of_a, to);
      to = std::copy_n(b->row(t) + h * of_b, of_b, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
