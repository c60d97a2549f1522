// Truth for RmsNorm: x / sqrt(mean(x^2) + eps) * scale.
#include <cmath>

#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefRmsNorm(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::RmsNorm::x);
  const RefTensor* scale = call.maybe(operand::RmsNorm::scale);
  DS_RETURN_IF_ERROR(CheckRefShape("rms_norm", "x", x, {-1, -1}));
  const int64_t cols = x->cols();
  DS_RETURN_IF_ERROR(CheckRefShape("rms_norm", "scale", scale, {cols}));
  const double eps = call.attrs[attr::RmsNorm::eps].f;
  ResizeRef(x->shape, out);
  for (int64_t r = 0; r < x->rows(); ++r) {
    const double* row = x->row(r);
    double squares = 0;
    for (int64_t c = 0; c < cols; ++c) squares += row[c] * row[c];
    const double root = std::sqrt(squares / cols + eps);
    for (int64_t c = 0; c < cols; ++c) {
      out->data[r * cols + c] = row[c] / root * scale->data[c];
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
