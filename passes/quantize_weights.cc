#include "passes/quantize_weights.h"

namespace deepslice {

absl::Status QuantizeWeights::Run(Graph& graph) {
  for (const auto& w : graph.weights()) {
    if (w->type.rank() < 2) continue;
    w->encoding = GetRole(w->role).quantised ? choice_.weights : choice_.base;
  }
  for (const auto& s : graph.states()) s->encoding = choice_.cache;
  return absl::OkStatus();
}

}  // namespace deepslice
