// What both fusing passes look for: a linear, with or without a bias after it.
#ifndef DEEPSLICE_PASSES_LINEAR_CHAIN_H_
#define DEEPSLICE_PASSES_LINEAR_CHAIN_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace deepslice {

struct LinearChain {
  Node* linear = nullptr;
  Node* add_bias = nullptr;  // nullptr: no bias
  Value* result() const {
    return add_bias != nullptr ? add_bias->result : linear->result;
  }
  Value* input() const { return linear->in(operand::Linear::x); }
  Weight* weight() const { return linear->weight(operand::Linear::w); }
  Weight* bias() const {
    return add_bias == nullptr ? nullptr
                               : add_bias->weight(operand::AddBias::bias);
  }
};

// The chain that makes `v`, when it is one: a plain linear (no fused operands)
// over a weight that only it reads, and an add_bias if there is one; every
// value on the way, `v` too, has one user and is not returned.
std::optional<LinearChain> MatchLinearChain(const Graph& graph, Value* v);

// Adds a weight whose rows are those of `parts`, one after the other or taken
// in turn, and returns it. Its type, source and encoding follow from the parts.
Weight* JoinWeights(Graph& graph, absl::string_view name, Role role,
                    const std::vector<Weight*>& parts, bool interleaved);

// Replaces the chains (same input; all with a bias or none) by one, placed
// before `before`; `result` names its result and `weight` its weight. The old
// nodes stay, for the caller to erase once they have no users.
Value* JoinChains(Graph& graph, const std::vector<LinearChain>& chains,
                  absl::string_view result, absl::string_view weight, Role role,
                  Role bias_role, bool interleaved, Node* before);

// `name` with its last component `from` replaced by `to`: "layers.0.q" to
// "layers.0.qkv". A name with another ending gets "." and `to` appended.
std::string Renamed(absl::string_view name, absl::string_view from,
                    absl::string_view to);

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_LINEAR_CHAIN_H_
