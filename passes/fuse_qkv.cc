#include "passes/fuse_qkv.h"

#include "passes/linear_chain.h"

namespace deepslice {
namespace {

// q, k or v of an attention: the linear's chain and the rotation after it.
struct Branch {
  LinearChain chain;
  Node* rope = nullptr;
};

std::optional<Branch> MatchBranch(const Graph& graph, Value* v) {
  Branch b;
  if (v == nullptr || v->producer == nullptr) return std::nullopt;
  if (v->producer->op == OpKind::kRope) {
    if (graph.Users(v).size() != 1 || graph.IsReturned(v)) return std::nullopt;
    b.rope = v->producer;
    // The fused op turns all sequences by one table.
    if (b.rope->operands[operand::Rope::horizons].present()) {
      return std::nullopt;
    }
    v = b.rope->in(operand::Rope::x);
  }
  const std::optional<LinearChain> chain = MatchLinearChain(graph, v);
  if (!chain.has_value()) return std::nullopt;
  b.chain = *chain;
  return b;
}

bool SameRotation(const Node& q, const Node& k) {
  return q.operands[operand::Rope::positions] ==
             k.operands[operand::Rope::positions] &&
         q.operands[operand::Rope::freqs] == k.operands[operand::Rope::freqs] &&
         q.i(attr::Rope::head_dim) == k.i(attr::Rope::head_dim) &&
         q.i(attr::Rope::rotary_dim) == k.i(attr::Rope::rotary_dim) &&
         q.i(attr::Rope::style) == k.i(attr::Rope::style) &&
         q.f(attr::Rope::scale) == k.f(attr::Rope::scale);
}

void Fuse(Graph& graph, Node* attention) {
  using In = operand::Attention;
  // The fused op has no such operand.
  if (attention->operands[In::rel_bias].present()) return;
  const std::optional<Branch> q = MatchBranch(graph, attention->in(In::q));
  const std::optional<Branch> k = MatchBranch(graph, attention->in(In::k));
  const std::optional<Branch> v = MatchBranch(graph, attention->in(In::v));
  if (!q || !k || !v || v->rope != nullptr) return;
  if ((q->rope == nullptr) != (k->rope == nullptr)) return;
  if (q->rope != nullptr && (!SameRotation(*q->rope, *k->rope) ||
                             !(q->rope->operands[operand::Rope::positions] ==
                               attention->operands[In::positions]) ||
                             q->rope->i(attr::Rope::head_dim) !=
                                 attention->i(attr::Attention::head_dim))) {
    return;
  }
  const std::vector<LinearChain> chains = {q->chain, k->chain, v->chain};
  for (const LinearChain& c : chains) {
    if (c.input() != chains[0].input()) return;
    if ((c.bias() == nullptr) != (chains[0].bias() == nullptr)) return;
  }

  Value* qkv = JoinChains(
      graph, chains, Renamed(chains[0].result()->name, "q", "qkv"),
      Renamed(chains[0].weight()->name, "attn_q", "attn_qkv"), Role::kAttnQkv,
      Role::kAttnQkvBias, /*interleaved=*/false, attention);

  using Old = attr::Attention;
  using New = attr::QkvAttention;
  std::vector<Attr> attrs(New::kCount);
  attrs[New::heads] = attention->attrs[Old::heads];
  attrs[New::kv_heads] = attention->attrs[Old::kv_heads];
  attrs[New::group] = attention->attrs[Old::group];
  attrs[New::head_offset] = attention->attrs[Old::head_offset];
  attrs[New::head_dim] = attention->attrs[Old::head_dim];
  attrs[New::scale] = attention->attrs[Old::scale];
  attrs[New::window] = attention->attrs[Old::window];
  attrs[New::softcap] = attention->attrs[Old::softcap];
  attrs[New::alibi] = attention->attrs[Old::alibi];
  attrs[New::rope_scale].f = 1;
  Operand freqs;
  if (q->rope != nullptr) {
    attrs[New::rotary_dim] = q->rope->attrs[attr::Rope::rotary_dim];
    attrs[New::style] = q->rope->attrs[attr::Rope::style];
    attrs[New::rope_scale] = q->rope->attrs[attr::Rope::scale];
    freqs = q->rope->operands[operand::Rope::freqs];
  }
  const std::string name = attention->result->name;
  attention->result->name = name + ".unfused";
  Node* fused = graph.AddNode(
      OpKind::kQkvAttention,
      {qkv, attention->operands[In::positions], attention->operands[In::slots],
       attention->operands[In::blocks], freqs, attention->operands[In::slopes]},
      attrs, name, attention->state, attention);
  graph.ReplaceUses(attention->result, fused->result);
  // Users first.
  graph.EraseNode(attention);
  for (const Branch& b : {*q, *k, *v}) {
    if (b.rope != nullptr) graph.EraseNode(b.rope);
    if (b.chain.add_bias != nullptr) graph.EraseNode(b.chain.add_bias);
    graph.EraseNode(b.chain.linear);
  }
}

}  // namespace

absl::Status FuseQkv::Run(Graph& graph) {
  std::vector<Node*> attentions;
  for (const auto& n : graph.nodes()) {
    if (n->op == OpKind::kAttention) attentions.push_back(n.get());
  }
  for (Node* n : attentions) Fuse(graph, n);
  graph.EraseUnused();
  graph.SortWeightsByUse();
  return absl::OkStatus();
}

}  // namespace deepslice
