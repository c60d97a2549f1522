#include "passes/quantize_weights.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace deepslice {

Encoding MatrixEncoding(const StorageChoice& choice, absl::string_view name,
                        Role role) {
  const size_t point = name.rfind('.');
  if (point != name.npos) name.remove_prefix(point + 1);
  if (std::count(choice.precise.begin(), choice.precise.end(), name) > 0) {
    return Encoding::kF32;
  }
  return GetRole(role).quantised ? choice.weights : choice.base;
}

absl::Status QuantizeWeights::Run(Graph& graph) {
  for (const auto& w : graph.weights()) {
    if (w->type.rank() < 2) continue;
    w->encoding = MatrixEncoding(choice_, w->name, w->role);
  }
  for (const auto& s : graph.states()) s->encoding = choice_.cache;
  return absl::OkStatus();
}

}  // namespace deepslice
