// Truth for SumSquares: the sum of squares of some columns of each row.
#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefSumSquares(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::SumSquares::x);
  DS_RETURN_IF_ERROR(CheckRefShape("sum_squares", "x", x, {-1, -1}));
  const int64_t begin = call.attrs[attr::SumSquares::begin].i;
  const int64_t end = call.attrs[attr::SumSquares::end].i;
  if (begin < 0 || end < begin || end > x->cols()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sum_squares: columns ", begin, " to ", end, " of ", x->cols()));
  }
  ResizeRef({x->rows(), 1}, out);
  for (int64_t r = 0; r < x->rows(); ++r) {
    for (int64_t c = begin; c < end; ++c) {
      out->data[r] += x->row(r)[c] * x->row(r)[c];
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
