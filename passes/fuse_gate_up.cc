#include "passes/fuse_gate_up.h"

#include "passes/linear_chain.h"

namespace deepslice {
namespace {

void Fuse(Graph& graph, Node* mul) {
  Value* activated = mul->in(operand::Mul::x);
  if (activated == nullptr || activated->producer == nullptr ||
      activated->producer->op != OpKind::kActivation ||
      graph.Users(activated).size() != 1 || graph.IsReturned(activated)) {
    return;
  }
  Node* act = activated->producer;
  const std::optional<LinearChain> gate =
      MatchLinearChain(graph, act->in(operand::Activation::x));
  const std::optional<LinearChain> up =
      MatchLinearChain(graph, mul->in(operand::Mul::y));
  if (!gate || !up || gate->input() != up->input() ||
      (gate->bias() == nullptr) != (up->bias() == nullptr)) {
    return;
  }
  Value* pair = JoinChains(
      graph, {*gate, *up}, Renamed(gate->result()->name, "gate", "gate_up"),
      Renamed(gate->weight()->name, "mlp_gate", "mlp_gate_up"),
      Role::kMlpGateUp, Role::kMlpGateUpBias, /*interleaved=*/true, mul);
  const std::string name = mul->result->name;
  mul->result->name = name + ".unfused";
  Node* fused =
      graph.AddNode(OpKind::kGatedAct, {pair},
                    {act->attrs[attr::Activation::kind]}, name, nullptr, mul);
  graph.ReplaceUses(mul->result, fused->result);
  graph.EraseNode(mul);
  graph.EraseNode(act);
  for (const LinearChain& c : {*gate, *up}) {
    if (c.add_bias != nullptr) graph.EraseNode(c.add_bias);
    graph.EraseNode(c.linear);
  }
}

}  // namespace

absl::Status FuseGateUp::Run(Graph& graph) {
  std::vector<Node*> products;
  for (const auto& n : graph.nodes()) {
    if (n->op == OpKind::kMul) products.push_back(n.get());
  }
  for (Node* n : products) Fuse(graph, n);
  graph.EraseUnused();
  graph.SortWeightsByUse();
  return absl::OkStatus();
}

}  // namespace deepslice
