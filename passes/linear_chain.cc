#include "passes/linear_chain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

bool HasOneUse(const Graph& graph, const Value* v) {
  return graph.Users(v).size() == 1 && !graph.IsReturned(v);
}

}  // namespace

std::optional<LinearChain> MatchLinearChain(const Graph& graph, Value* v) {
  LinearChain chain;
  if (v == nullptr || v->producer == nullptr || !HasOneUse(graph, v)) {
    return std::nullopt;
  }
  Node* n = v->producer;
  if (n->op == OpKind::kAddBias) {
    chain.add_bias = n;
    Value* x = n->in(operand::AddBias::x);
    if (n->weight(operand::AddBias::bias) == nullptr || x == nullptr ||
        x->producer == nullptr || !HasOneUse(graph, x)) {
      return std::nullopt;
    }
    n = x->producer;
  }
  if (n->op != OpKind::kLinear || n->weight(operand::Linear::w) == nullptr ||
      n->in(operand::Linear::x) == nullptr ||
      n->operands[operand::Linear::bias].present() ||
      n->operands[operand::Linear::residual].present()) {
    return std::nullopt;
  }
  chain.linear = n;
  if (graph.Users(chain.weight()).size() != 1) return std::nullopt;
  if (chain.bias() != nullptr && graph.Users(chain.bias()).size() != 1) {
    return std::nullopt;
  }
  return chain;
}

Weight* JoinWeights(Graph& graph, absl::string_view name, Role role,
                    const std::vector<Weight*>& parts, bool interleaved) {
  TensorType type = parts[0]->type;
  type.dims[0] = 0;
  WeightSource source;
  source.interleaved = interleaved;
  bool sourced = true;
  for (const Weight* part : parts) {
    type.dims[0].size += part->type.dims[0].size;
    sourced = sourced && part->source.pieces.size() == 1;
    source.pieces.insert(source.pieces.end(), part->source.pieces.begin(),
                         part->source.pieces.end());
  }
  Weight* joined = graph.AddWeight(name, type, role);
  joined->encoding = parts[0]->encoding;
  if (sourced) joined->source = source;
  return joined;
}

Value* JoinChains(Graph& graph, const std::vector<LinearChain>& chains,
                  absl::string_view result, absl::string_view weight, Role role,
                  Role bias_role, bool interleaved, Node* before) {
  std::vector<Weight*> weights, biases;
  for (const LinearChain& c : chains) {
    weights.push_back(c.weight());
    if (c.bias() != nullptr) biases.push_back(c.bias());
  }
  Weight* w = JoinWeights(graph, weight, role, weights, interleaved);
  const bool biased = !biases.empty();
  Node* linear = graph.AddNode(
      OpKind::kLinear, {chains[0].input(), w}, {},
      biased ? absl::StrCat(result, ".nobias") : std::string(result), nullptr,
      before);
  if (!biased) return linear->result;
  Weight* b = JoinWeights(graph, absl::StrCat(weight, ".bias"), bias_role,
                          biases, interleaved);
  return graph
      .AddNode(OpKind::kAddBias, {linear->result, b}, {}, result, nullptr,
               before)
      ->result;
}

std::string Renamed(absl::string_view name, absl::string_view from,
                    absl::string_view to) {
  if (name == from) return std::string(to);
  if (absl::EndsWith(name, absl::StrCat(".", from))) {
    return absl::StrCat(name.substr(0, name.size() - from.size()), to);
  }
  return absl::StrCat(name, ".", to);
}

}  // namespace deepslice
