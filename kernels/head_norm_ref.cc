// Truth for HeadNorm: RmsNorm or LayerNorm of each head of a row.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefHeadNorm(const RefCall& call, RefTensor* out) {
  using In = operand::HeadNorm;
  using At = attr::HeadNorm;
  const int64_t heads = call.attrs[At::heads].i;
  const int64_t dim = call.attrs[At::head_dim].i;
  const double eps = call.attrs[At::eps].f;
  const bool layer =
      static_cast<NormKind>(call.attrs[At::kind].i) == NormKind::kLayer;
  if (heads < 0 || dim < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_norm: ", heads, " heads of ", dim,
                     "; heads of at least one element are needed"));
  }
  const RefTensor* x = call.maybe(In::x);
  DS_RETURN_IF_ERROR(CheckRefShape("head_norm", "x", x, {-1, heads * dim}));
  const RefTensor* scale = call.maybe(In::scale);
  const RefTensor* bias = call.maybe(In::bias);
  const int64_t all = heads * dim;
  const bool wide =
      scale != nullptr && static_cast<int64_t>(scale->data.size()) == all;
  DS_RETURN_IF_ERROR(
      CheckRefShape("head_norm", "scale", scale, {wide ? all : dim}));
  if (bias != nullptr) {
    DS_RETURN_IF_ERROR(
        CheckRefShape("head_norm", "bias", bias, {wide ? all : dim}));
  }
  ResizeRef(x->shape, out);
  for (int64_t r = 0; r < x->rows() * heads; ++r) {
    const double* from = x->data.data() + r * dim;
    double* to = out->data.data() + r * dim;
    const int64_t first = wide ? r % heads * dim : 0;
    double mean = 0, squares = 0;
    if (layer) {
      for (int64_t c = 0; c < dim; ++c) mean += from[c] / dim;
    }
    for (int64_t c = 0; c < dim; ++c) {
      squares += (from[c] - mean) * (from[c] - mean);
    }
    const double root = std::sqrt(squares / dim + eps);
    for (int64_t c = 0; c < dim; ++c) {
      to[c] = (from[c] - mean) / root * scale->data[first + c];
      if (bias != nullptr) to[c] += bias->data[first + c];
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
