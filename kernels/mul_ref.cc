// Truth for Mul: x * y.
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefMul(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Mul::x);
  const RefTensor* y = call.maybe(operand::Mul::y);
  DS_RETURN_IF_ERROR(CheckRefShape("mul", "x", x, {-1, -1}));
  DS_RETURN_IF_ERROR(CheckRefShape("mul", "y", y, x->shape));
  ResizeRef(x->shape, out);
  for (size_t i = 0; i < x->data.size(); ++i) {
    out->data[i] = x->data[i] * y->data[i];
  }
  return absl::OkStatus();
}

}  // namespace deepslice
