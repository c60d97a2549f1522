// Truth for Add: x + y [+ bias].
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefAdd(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Add::x);
  const RefTensor* y = call.maybe(operand::Add::y);
  const RefTensor* bias = call.maybe(operand::Add::bias);
  DS_RETURN_IF_ERROR(CheckRefShape("add", "x", x, {-1, -1}));
  DS_RETURN_IF_ERROR(CheckRefShape("add", "y", y, x->shape));
  const int64_t cols = x->cols();
  if (bias != nullptr) {
    DS_RETURN_IF_ERROR(CheckRefShape("add", "bias", bias, {cols}));
  }
  ResizeRef(x->shape, out);
  for (int64_t r = 0; r < x->rows(); ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      double sum = x->row(r)[c] + y->row(r)[c];
      if (bias != nullptr) sum += bias->data[c];
      out->data[r * cols + c] = sum;
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
