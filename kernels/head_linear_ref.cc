// Truth for HeadLinear: each head's part of a row by its own block of weights.
#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefHeadLinear(const RefCall& call, RefTensor* out) {
  using In = operand::HeadLinear;
  const int64_t heads = call.attrs[attr::HeadLinear::heads].i;
  const bool transposed = call.attrs[attr::HeadLinear::transposed].i != 0;
  const RefTensor* w = call.maybe(In::w);
  DS_RETURN_IF_ERROR(CheckRefShape("head_linear", "w", w, {-1, -1}));
  if (heads < 0 || (heads == 0 ? w->rows() != 0 : w->rows() % heads != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_linear: ", heads, " heads of ", w->rows(),
                     " rows; a divisor is needed"));
  }
  const int64_t block = heads == 0 ? 0 : w->rows() / heads;
  const int64_t from = transposed ? block : w->cols();
  const int64_t to = transposed ? w->cols() : block;
  const RefTensor* x = call.maybe(In::x);
  DS_RETURN_IF_ERROR(CheckRefShape("head_linear", "x", x, {-1, heads * from}));
  ResizeRef({x->rows(), heads * to}, out);
  for (int64_t t = 0; t < x->rows(); ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t o = 0; o < to; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < from; ++i) {
          sum += x->row(t)[h * from + i] *
                 (transposed ? w->row(h * from + i)[o] : w->row(h * to + o)[i]);
        }
        out->data[(t * heads + h) * to + o] = sum;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
