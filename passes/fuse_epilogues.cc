#include "passes/fuse_epilogues.h"

namespace deepslice {
namespace {

bool HasOneUse(const Graph& graph, const Value* v) {
  return graph.Users(v).size() == 1 && !graph.IsReturned(v);
}

// The producer of `v` when it is of that kind and `v` is only used here.
Node* OnlyProducer(const Graph& graph, const Value* v, OpKind op) {
  if (v == nullptr || v->producer == nullptr || v->producer->op != op ||
      !HasOneUse(graph, v)) {
    return nullptr;
  }
  return v->producer;
}

// Makes `node` a copy of `from` with one more operand, in place of `node`.
void Replace(Graph& graph, Node* node, Node* from, int slot, Operand extra) {
  std::vector<Operand> operands = from->operands;
  operands[slot] = extra;
  const std::string name = node->result->name;
  node->result->name = name + ".unfused";
  Node* fused =
      graph.AddNode(from->op, operands, from->attrs, name, from->state, node);
  graph.ReplaceUses(node->result, fused->result);
  graph.EraseNode(node);
  graph.EraseNode(from);
}

// add_bias(linear) -> linear with bias.
void FuseBias(Graph& graph, Node* add_bias) {
  Node* linear =
      OnlyProducer(graph, add_bias->in(operand::AddBias::x), OpKind::kLinear);
  if (linear == nullptr || linear->operands[operand::Linear::bias].present() ||
      linear->operands[operand::Linear::residual].present()) {
    return;
  }
  Replace(graph, add_bias, linear, operand::Linear::bias,
          add_bias->operands[operand::AddBias::bias]);
}

void FuseAdd(Graph& graph, Node* add) {
  if (add->operands[operand::Add::bias].present()) return;
  for (const int side : {operand::Add::x, operand::Add::y}) {
    const int other = operand::Add::x + operand::Add::y - side;
    Value* term = add->in(side);
    // x + x: the same value twice is not a residual.
    if (add->in(side) == add->in(other)) return;
    Node* linear = OnlyProducer(graph, term, OpKind::kLinear);
    if (linear != nullptr &&
        !linear->operands[operand::Linear::residual].present()) {
      Replace(graph, add, linear, operand::Linear::residual,
              add->operands[other]);
      return;
    }
    Node* biased = OnlyProducer(graph, term, OpKind::kAddBias);
    if (biased != nullptr) {
      std::vector<Operand> operands = add->operands;
      operands[side] = biased->operands[operand::AddBias::x];
      operands[operand::Add::bias] = biased->operands[operand::AddBias::bias];
      const std::string name = add->result->name;
      add->result->name = name + ".unfused";
      Node* fused =
          graph.AddNode(OpKind::kAdd, operands, {}, name, nullptr, add);
      graph.ReplaceUses(add->result, fused->result);
      graph.EraseNode(add);
      graph.EraseNode(biased);
      return;
    }
  }
}

std::vector<Node*> NodesOf(const Graph& graph, OpKind op) {
  std::vector<Node*> out;
  for (const auto& n : graph.nodes()) {
    if (n->op == op) out.push_back(n.get());
  }
  return out;
}

}  // namespace

absl::Status FuseEpilogues::Run(Graph& graph) {
  // Biases first, so that an addition then finds the linear directly.
  for (Node* n : NodesOf(graph, OpKind::kAddBias)) FuseBias(graph, n);
  for (Node* n : NodesOf(graph, OpKind::kAdd)) FuseAdd(graph, n);
  return absl::OkStatus();
}

}  // namespace deepslice
