// Truth for Linear: x . w^T [+ bias] [+ residual].
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefLinear(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Linear::x);
  const RefTensor* w = call.maybe(operand::Linear::w);
  const RefTensor* bias = call.maybe(operand::Linear::bias);
  const RefTensor* residual = call.maybe(operand::Linear::residual);
  DS_RETURN_IF_ERROR(CheckRefShape("linear", "x", x, {-1, -1}));
  const int64_t rows = x->rows(), depth = x->cols();
  DS_RETURN_IF_ERROR(CheckRefShape("linear", "w", w, {-1, depth}));
  const int64_t cols = w->rows();
  if (bias != nullptr) {
    DS_RETURN_IF_ERROR(CheckRefShape("linear", "bias", bias, {cols}));
  }
  if (residual != nullptr) {
    DS_RETURN_IF_ERROR(
        CheckRefShape("linear", "residual", residual, {rows, cols}));
  }
  ResizeRef({rows, cols}, out);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += x->row(r)[k] * w->row(c)[k];
      if (bias != nullptr) sum += bias->data[c];
      if (residual != nullptr) sum += residual->row(r)[c];
      out->data[r * cols + c] = sum;
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
