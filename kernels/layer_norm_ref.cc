// Truth for LayerNorm: (x - mean) / sqrt(variance + eps) * scale [+ bias].
#include <cmath>

#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefLayerNorm(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::LayerNorm::x);
  const RefTensor* scale = call.maybe(operand::LayerNorm::scale);
  const RefTensor* bias = call.maybe(operand::LayerNorm::bias);
  DS_RETURN_IF_ERROR(CheckRefShape("layer_norm", "x", x, {-1, -1}));
  const int64_t cols = x->cols();
  DS_RETURN_IF_ERROR(CheckRefShape("layer_norm", "scale", scale, {cols}));
  if (bias != nullptr) {
    DS_RETURN_IF_ERROR(CheckRefShape("layer_norm", "bias", bias, {cols}));
  }
  const double eps = call.attrs[attr::LayerNorm::eps].f;
  ResizeRef(x->shape, out);
  for (int64_t r = 0; r < x->rows(); ++r) {
    const double* row = x->row(r);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < cols; ++c) sum += row[c];
    const double mean = sum / cols;
    for (int64_t c = 0; c < cols; ++c) {
      squares += (row[c] - mean) * (row[c] - mean);
    }
    const double root = std::sqrt(squares / cols + eps);
    for (int64_t c = 0; c < cols; ++c) {
      double y = (row[c] - mean) / root * scale->data[c];
      if (bias != nullptr) y += bias->data[c];
      out->data[r * cols + c] = y;
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
