// Joins the gate and up linears of a gated MLP into one whose rows alternate,
// so that one read of the input serves both and a pair lies side by side.
//   Before:  %g = linear(%h, @mlp_gate)   %ga = activation(%g) {kind=silu}
//            %u = linear(%h, @mlp_up)     %a = mul(%ga, %u)
//   After:   %gu = linear(%h, @mlp_gate_up)
//            %a = gated_activation(%gu) {kind=silu}
// Leaves a product alone whose linears read different values, whose
// intermediate values have other users, or where only one has a bias.
#ifndef DEEPSLICE_PASSES_FUSE_GATE_UP_H_
#define DEEPSLICE_PASSES_FUSE_GATE_UP_H_

#include "passes/pass.h"

namespace deepslice {

class FuseGateUp final : public Pass {
 public:
  absl::string_view name() const override { return "fuse-gate-up"; }
  absl::Status Run(Graph& graph) override;
};

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_FUSE_GATE_UP_H_
