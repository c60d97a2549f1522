// Truth for AddBias: the same bias for every row.
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefAddBias(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::AddBias::x);
  const RefTensor* bias = call.maybe(operand::AddBias::bias);
  DS_RETURN_IF_ERROR(CheckRefShape("add_bias", "x", x, {-1, -1}));
  const int64_t cols = x->cols();
  DS_RETURN_IF_ERROR(CheckRefShape("add_bias", "bias", bias, {cols}));
  ResizeRef(x->shape, out);
  for (int64_t r = 0; r < x->rows(); ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      out->data[r * cols + c] = x->row(r)[c] + bias->data[c];
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
