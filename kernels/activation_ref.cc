// Truth for Activation, and the functions that GatedAct shares.
#include <cmath>

#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

double RefAct(Act kind, double x) {
  switch (kind) {
    case Act::kSilu:
      return x / (1 + std::exp(-x));
    case Act::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Act::kGeluTanh:
      // x (1 + tanh(u)) / 2 = x / (1 + e^(-2u)), u = sqrt(2 / pi) (...): the
      // second form keeps its digits where tanh is nearly -1.
      return x / (1 + std::exp(-2 * 0.7978845608028654 *
                               (x + 0.044715 * x * x * x)));
    case Act::kRelu:
      return x < 0 ? 0 : x;
    case Act::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Act::kTanh:
      return std::tanh(x);
    case Act::kRelu2:
      return x < 0 ? 0 : x * x;
  }
  return 0;
}

absl::Status RefActivation(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Activation::x);
  DS_RETURN_IF_ERROR(CheckRefShape("activation", "x", x, {-1, -1}));
  const Act kind = static_cast<Act>(call.attrs[attr::Activation::kind].i);
  ResizeRef(x->shape, out);
  for (size_t i = 0; i < x->data.size(); ++i) {
    out->data[i] = RefAct(kind, x->data[i]);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
