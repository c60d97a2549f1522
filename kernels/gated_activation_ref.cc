// Truth for GatedAct: f(gate) * up, gate and up columns interleaved.
#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefGatedAct(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::GatedAct::x);
  DS_RETURN_IF_ERROR(CheckRefShape("gated_activation", "x", x, {-1, -1}));
  if (x->cols() % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gated_activation: x: ", x->cols(),
                     " columns; must be even: a gate and an up column each"));
  }
  const Act kind = static_cast<Act>(call.attrs[attr::GatedAct::kind].i);
  ResizeRef({x->rows(), x->cols() / 2}, out);
  for (size_t i = 0; i < out->data.size(); ++i) {
    out->data[i] = RefAct(kind, x->data[2 * i]) * x->data[2 * i + 1];
  }
  return absl::OkStatus();
}

}  // namespace deepslice
