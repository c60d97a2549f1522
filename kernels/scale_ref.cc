// Truth for Scale: factor * x.
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefScale(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Scale::x);
  DS_RETURN_IF_ERROR(CheckRefShape("scale", "x", x, {-1, -1}));
  *out = *x;
  for (double& v : out->data) v *= call.attrs[attr::Scale::factor].f;
  return absl::OkStatus();
}

}  // namespace deepslice
