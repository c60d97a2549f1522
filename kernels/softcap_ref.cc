// Truth for Softcap: cap * tanh(x / cap).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefSoftcap(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Softcap::x);
  DS_RETURN_IF_ERROR(CheckRefShape("softcap", "x", x, {-1, -1}));
  const double cap = call.attrs[attr::Softcap::cap].f;
  if (!(cap > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("softcap: cap ", cap, "; a number above 0 is needed"));
  }
  *out = *x;
  for (double& v : out->data) v = cap * std::tanh(v / cap);
  return absl::OkStatus();
}

}  // namespace deepslice
