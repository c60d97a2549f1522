#include "compiler/gpu/folds.h"

#include <algorithm>
#include <vector>

namespace deepslice {
namespace {

bool IsNorm(const Node* n) {
  return n->op == OpKind::kRmsNorm || n->op == OpKind::kLayerNorm;
}
bool IsGather(const Node* n) { return n->op == OpKind::kGatherRows; }

}  // namespace

Folds::Folds(const Graph& graph, bool into_linears) {
  for (const auto& n : graph.nodes()) {
    for (const Operand& o : n->operands) {
      if (o.value != nullptr) users_[o.value].push_back(n.get());
    }
    if (n->op == OpKind::kLinear || IsNorm(n.get())) {
      folds_[n.get()] = {n->in(0), n->result};
    }
  }
  for (const Value* v : graph.returns()) returned_.insert(v);
  FoldEpilogues(graph);
  FoldScalesAndKeys(graph);
  if (into_linears) {
    FoldInputs(graph);
  } else {
    FoldGathers(graph);
  }
}

const Node* Folds::OnlyUser(const Node* n) const {
  const auto found = users_.find(n->result);
  if (found == users_.end() || found->second.size() != 1 ||
      returned_.contains(n->result)) {
    return nullptr;
  }
  return found->second[0];
}

void Folds::FoldEpilogues(const Graph& graph) {
  for (const auto& n : graph.nodes()) {
    if (n->op != OpKind::kLinear) continue;
    // The residual is added after the activation, not before.
    if (n->operands[operand::Linear::residual].present()) continue;
    const Node* user = OnlyUser(n.get());
    if (user == nullptr ||
        (user->op != OpKind::kActivation && user->op != OpKind::kGatedAct)) {
      continue;
    }
    folded_.insert(user);
    folds_[n.get()].epilogue = user;
    folds_[n.get()].y = user->result;
  }
}

void Folds::FoldScalesAndKeys(const Graph& graph) {
  for (const auto& n : graph.nodes()) {
    const Node* user = OnlyUser(n.get());
    if (user == nullptr || taken_.contains(user)) continue;
    const bool scale = n->op == OpKind::kScale && user->op == OpKind::kAdd &&
                       !user->operands[operand::Add::bias].present();
    const bool key = n->op == OpKind::kConcatHeads &&
                     n->i(attr::ConcatHeads::heads) == 1 &&
                     user->op == OpKind::kLatentAttention &&
                     user->in(operand::LatentAttention::k) == n->result;
    if (!scale && !key) continue;
    folded_.insert(n.get());
    taken_[user] = n.get();
  }
}

// Whether `user` can do the work of n, a norm or a gather, on its way.
bool Folds::TakesIn(const Node* n, const Node* user) const {
  if (user->op == OpKind::kLinear) {
    return user->in(operand::Linear::x) == n->result &&
           user->in(operand::Linear::residual) != n->result;
  }
  if (!folded_.contains(user)) return false;
  // One norm and one gather in a row at most.
  if (IsNorm(n) ? !IsGather(user) : !IsNorm(user)) return false;
  const auto& next = users_.at(user->result);
  return std::all_of(next.begin(), next.end(),
                     [](const Node* u) { return u->op == OpKind::kLinear; });
}

void Folds::FoldInputs(const Graph& graph) {
  // Users are decided before what they use.
  const auto& nodes = graph.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node* n = it->get();
    if ((!IsNorm(n) && !IsGather(n)) || returned_.contains(n->result)) continue;
    const auto found = users_.find(n->result);
    if (found == users_.end()) continue;
    if (std::all_of(found->second.begin(), found->second.end(),
                    [&](const Node* u) { return TakesIn(n, u); })) {
      folded_.insert(n);
    }
  }
  for (const auto& n : nodes) {
    if (n->op != OpKind::kLinear) continue;
    Fold& fold = folds_[n.get()];
    while (fold.x->producer != nullptr && folded_.contains(fold.x->producer)) {
      const Node* p = fold.x->producer;
      if (!IsNorm(p) && !IsGather(p)) break;  // a folded activation
      (IsNorm(p) ? fold.norm : fold.gather) = p;
      fold.x = p->in(0);
    }
  }
}

void Folds::FoldGathers(const Graph& graph) {
  for (const auto& n : graph.nodes()) {
    const Node* user = OnlyUser(n.get());
    if (user == nullptr || folded_.contains(n.get())) continue;
    if (IsGather(n.get()) && IsNorm(user) && folds_[user].gather == nullptr) {
      folded_.insert(n.get());
      folds_[user].gather = n.get();
      folds_[user].x = n->in(0);
    } else if (IsNorm(n.get()) && IsGather(user) &&
               folds_[n.get()].gather == nullptr) {
      folded_.insert(user);
      folds_[n.get()].gather = user;
      folds_[n.get()].y = user->result;
    }
  }
}

}  // namespace deepslice
