// Which nodes of a graph have no step of their own on a GPU: another node's
// kernel does their work on the way.
//   %n = rms_norm(%h, @s)   %q = linear(%n, @w)   %a = activation(%q)
// is one step of the linear (few tokens), or a norm, a matrix product and an
// activation (many). Rows may be gathered before or after a norm: the result is
// the same.
#ifndef DEEPSLICE_COMPILER_GPU_FOLDS_H_
#define DEEPSLICE_COMPILER_GPU_FOLDS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/graph.h"

namespace deepslice {

// What a linear or a norm does besides its own work.
struct Fold {
  const Value* x = nullptr;    // what it reads, before `gather` and `norm`
  const Value* y = nullptr;    // what it makes, after `epilogue`
  const Node* norm = nullptr;  // linears only
  const Node* gather = nullptr;
  const Node* epilogue = nullptr;  // linears only: Activation or GatedAct
};

class Folds {
 public:
  // `into_linears`: linears take norms and gathers in; else norms take gathers.
  Folds(const Graph& graph, bool into_linears);

  // Whether another node does this one's work; its result has no buffer then.
  bool IsFolded(const Node* n) const { return folded_.contains(n); }
  // Of a linear or a norm that is not folded.
  const Fold& Of(const Node* n) const { return folds_.at(n); }
  // The Scale whose work an Add does on the way; the ConcatHeads whose work a
  // LatentAttention's append does. nullptr: none.
  const Node* ScaleOf(const Node* add) const { return TakenBy(add); }
  const Node* KeyOf(const Node* latent) const { return TakenBy(latent); }

 private:
  using Users = absl::flat_hash_map<const Value*, std::vector<const Node*>>;

  void FoldEpilogues(const Graph& graph);
  void FoldInputs(const Graph& graph);
  void FoldGathers(const Graph& graph);
  void FoldScalesAndKeys(const Graph& graph);
  const Node* TakenBy(const Node* n) const {
    const auto found = taken_.find(n);
    return found == taken_.end() ? nullptr : found->second;
  }
  bool TakesIn(const Node* n, const Node* user) const;
  // The only user of the node's result, or nullptr.
  const Node* OnlyUser(const Node* n) const;

  Users users_;
  absl::flat_hash_set<const Value*> returned_;
  absl::flat_hash_set<const Node*> folded_;
  absl::flat_hash_map<const Node*, Fold> folds_;
  absl::flat_hash_map<const Node*, const Node*> taken_;  // by the taker
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_FOLDS_H_
