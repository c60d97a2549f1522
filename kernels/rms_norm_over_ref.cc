// Truth for RmsNormOver: RmsNorm with the whole row's sum of squares given.
#include <cmath>

#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefRmsNormOver(const RefCall& call, RefTensor* out) {
  using In = operand::RmsNormOver;
  const RefTensor* x = call.maybe(In::x);
  DS_RETURN_IF_ERROR(CheckRefShape("rms_norm_over", "x", x, {-1, -1}));
  const RefTensor* sums = call.maybe(In::sums);
  DS_RETURN_IF_ERROR(
      CheckRefShape("rms_norm_over", "sums", sums, {x->rows(), 1}));
  const RefTensor* scale = call.maybe(In::scale);
  DS_RETURN_IF_ERROR(
      CheckRefShape("rms_norm_over", "scale", scale, {x->cols()}));
  const auto count =
      static_cast<double>(call.attrs[attr::RmsNormOver::count].i);
  const double eps = call.attrs[attr::RmsNormOver::eps].f;
  ResizeRef(x->shape, out);
  for (int64_t r = 0; r < x->rows(); ++r) {
    const double root = std::sqrt(sums->data[r] / count + eps);
    for (int64_t c = 0; c < x->cols(); ++c) {
      out->data[r * x->cols() + c] = x->row(r)[c] / root * scale->data[c];
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
