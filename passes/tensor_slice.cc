#include "passes/tensor_slice.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "passes/weight_cut.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// 16 columns: one vector of floats on the widest CPU, one MMA tile on a GPU.
constexpr int64_t kMlpGrain = 16;

// Geometry of an attention node, under any of its ops.
struct HeadGeometry {
  int64_t heads, kv_heads, head_dim;
  HeadPart part;
};

// Where an op that attends has its heads.
struct AttentionOp {
  OpKind op;
  int heads, kv_heads, group, head_offset, head_dim;  // attributes
  int inputs;                     // operands that linears make: q, k, v; qkv
  int slopes = -1, rel_bias = -1;  // operands with a row for each query head
};
template <typename A>
constexpr AttentionOp HeadsOf(OpKind op, int inputs, int slopes, int rel_bias) {
  return {op,          A::heads, A::kv_heads, A::group, A::head_offset,
          A::head_dim, inputs,   slopes,      rel_bias};
}
constexpr AttentionOp kAttentionOps[] = {
    HeadsOf<attr::Attention>(OpKind::kAttention, 3, operand::Attention::slopes,
                             operand::Attention::rel_bias),
    HeadsOf<attr::QkvAttention>(OpKind::kQkvAttention, 1,
                                operand::QkvAttention::slopes, -1),
    HeadsOf<attr::EncoderAttention>(OpKind::kEncoderAttention, 3, -1,
                                    operand::EncoderAttention::rel_bias),
    HeadsOf<attr::CrossAttention>(OpKind::kCrossAttention, 3, -1, -1),
};
const AttentionOp* FindAttentionOp(OpKind op) {
  for (const AttentionOp& a : kAttentionOps) {
    if (a.op == op) return &a;
  }
  return nullptr;
}

class Slicer {
 public:
  Slicer(Graph& graph, int tp, int rank)
      : graph_(graph), tp_(tp), rank_(rank) {}

  absl::Status Run() {
    DS_RETURN_IF_ERROR(CollectHeads());
    CountSlicedNorms();
    for (const auto& w : graph_.weights()) DS_RETURN_IF_ERROR(CutOne(*w));
    ResizeHeads();
    if (!sliced_norms_.empty()) DS_RETURN_IF_ERROR(graph_.InferShapes());
    for (Node* n : sliced_norms_) SliceNorm(n);
    return AddCollectives();
  }

 private:
  // Finds, for every weight that is cut by heads, the attention it serves.
  absl::Status CollectHeads() {
    for (const auto& n : graph_.nodes()) {
      if (n->op == OpKind::kLatentAttention) CollectLatent(n.get());
      const AttentionOp* op = FindAttentionOp(n->op);
      if (op == nullptr) continue;
      HeadGeometry g;
      g.heads = n->i(op->heads);
      g.kv_heads = n->i(op->kv_heads);
      g.head_dim = n->i(op->head_dim);
      if (g.kv_heads <= 0 || g.heads % g.kv_heads != 0 ||
          n->i(op->head_offset) != 0) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%%%s: %d query heads over %d KV heads; the first must be a "
            "multiple of the second, and unsliced",
            n->result->name, g.heads, g.kv_heads));
      }
      g.part = PartOfHeads(g.heads, g.kv_heads, tp_, rank_);
      for (const int of_heads : {op->slopes, op->rel_bias}) {
        if (of_heads >= 0 && n->weight(of_heads) != nullptr) {
          heads_.emplace(n->weight(of_heads), g);
        }
      }
      for (int i = 0; i < op->inputs; ++i) {
        Trace(n->in(i), g, i == 0 ? g.part.q.size() : g.part.kv.size());
      }
      for (Node* user : graph_.Users(n->result)) {
        if (Weight* w = user->op == OpKind::kLinear
                            ? user->weight(operand::Linear::w)
                            : nullptr) {
          heads_.emplace(w, g);
        }
      }
      attentions_.emplace_back(n.get(), g);
    }
    return absl::OkStatus();
  }

  // Latent attention: query heads are cut, the latent and its key are whole on
  // every rank.
  void CollectLatent(Node* n) {
    using A = attr::LatentAttention;
    HeadGeometry g;
    g.heads = n->i(A::heads);
    g.kv_heads = g.heads;
    g.part = PartOfHeads(g.heads, g.heads, tp_, rank_);
    TraceLatent(n->in(operand::LatentAttention::q), g);
    for (Node* user : graph_.Users(n->result)) {
      if (user->op != OpKind::kHeadLinear) continue;
      TakeHeads(user->weight(operand::HeadLinear::w), g);
      user->attrs[attr::HeadLinear::heads].i = g.part.q.size();
      for (Node* next : graph_.Users(user->result)) {
        Weight* w = next->op == OpKind::kLinear
                        ? next->weight(operand::Linear::w)
                        : nullptr;
        if (w == nullptr || g.heads == 0) continue;
        HeadGeometry by_cols = g;
        by_cols.head_dim = w->type.dims[1].size / g.heads;
        heads_.emplace(w, by_cols);
      }
    }
    latents_.emplace_back(n, g.part.q.size());
  }
  // A weight whose rows are shared evenly by the heads.
  void TakeHeads(Weight* w, HeadGeometry g) {
    if (w == nullptr || g.heads == 0) return;
    g.head_dim = w->type.dims[0].size / g.heads;
    heads_.emplace(w, g);
  }
  void TraceLatent(Value* v, const HeadGeometry& g) {
    Node* n = v == nullptr ? nullptr : v->producer;
    if (n == nullptr) return;
    const int64_t heads = g.part.q.size();
    switch (n->op) {
      case OpKind::kConcatHeads:
        n->attrs[attr::ConcatHeads::heads].i = heads;
        TraceLatent(n->in(operand::ConcatHeads::a), g);
        return TraceLatent(n->in(operand::ConcatHeads::b), g);
      case OpKind::kHeadLinear:
        n->attrs[attr::HeadLinear::heads].i = heads;
        TakeHeads(n->weight(operand::HeadLinear::w), g);
        return TraceLatent(n->in(operand::HeadLinear::x), g);
      case OpKind::kRope:
        n->attrs[attr::Rope::heads].i = heads;
        return TraceLatent(n->in(operand::Rope::x), g);
      case OpKind::kAddBias:
        TakeHeads(n->weight(operand::AddBias::bias), g);
        return TraceLatent(n->in(operand::AddBias::x), g);
      case OpKind::kLinear:
        return TakeHeads(n->weight(operand::Linear::w), g);
      default:
        return;
    }
  }

  // Walks from an attention's input back to its linear, over rotation, norm,
  // factor and bias; `heads` is what this rank keeps of them.
  void Trace(Value* v, const HeadGeometry& g, int64_t heads) {
    while (v != nullptr && v->producer != nullptr) {
      Node* n = v->producer;
      if (n->op == OpKind::kRope) {
        n->attrs[attr::Rope::heads].i = heads;
        v = n->in(operand::Rope::x);
      } else if (n->op == OpKind::kHeadNorm) {
        n->attrs[attr::HeadNorm::heads].i = heads;
        for (int i : {operand::HeadNorm::scale, operand::HeadNorm::bias}) {
          if (Weight* w = n->weight(i)) heads_.emplace(w, g);
        }
        v = n->in(operand::HeadNorm::x);
      } else if (n->op == OpKind::kRmsNorm) {
        if (Weight* w = n->weight(operand::RmsNorm::scale)) {
          heads_.emplace(w, g);
        }
        sliced_norms_.push_back(n);
        v = n->in(operand::RmsNorm::x);
      } else if (n->op == OpKind::kScale) {
        v = n->in(operand::Scale::x);
      } else if (n->op == OpKind::kAddBias) {
        if (Weight* b = n->weight(operand::AddBias::bias)) {
          heads_.emplace(b, g);
        }
        v = n->in(operand::AddBias::x);
      } else {
        if (n->op == OpKind::kLinear) {
          if (Weight* w = n->weight(operand::Linear::w)) heads_.emplace(w, g);
        }
        return;
      }
    }
  }

  absl::Status CutOne(Weight& w) {
    const Cut cut = GetRole(w.role).cut;
    const int64_t rows = w.type.dims[0].size;
    const int64_t cols = w.type.rank() < 2 ? 1 : w.type.dims[1].size;
    switch (cut) {
      case Cut::kWhole:
        return absl::OkStatus();
      case Cut::kVocabRows:
        return CutRows(
            w, {PartBegin(rows, tp_, rank_), PartBegin(rows, tp_, rank_ + 1)});
      case Cut::kMlpRows:
        return CutRows(w, PartOfMlp(rows, tp_, rank_));
      case Cut::kMlpPairs: {
        const Range part = PartOfMlp(rows / 2, tp_, rank_);
        return CutWeightPieces(w, {part, part});
      }
      case Cut::kMlpCols:
        return CutWeightCols(w, PartOfMlp(cols, tp_, rank_));
      default:
        break;
    }
    const auto found = heads_.find(&w);
    if (found == heads_.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("@%s has role %s but serves no attention", w.name,
                          GetRole(w.role).spelling));
    }
    const HeadGeometry& g = found->second;
    const auto scaled = [&](Range heads) {
      return Range{heads.begin * g.head_dim, heads.end * g.head_dim};
    };
    switch (cut) {
      case Cut::kQHeads:
        return CutRows(w, scaled(g.part.q));
      case Cut::kKvHeads:
        return CutRows(w, scaled(g.part.kv));
      case Cut::kQHeadRows:
        return CutRows(w, g.part.q);
      case Cut::kQkvHeads:
        return CutWeightPieces(
            w, {scaled(g.part.q), scaled(g.part.kv), scaled(g.part.kv)});
      default:
        return CutWeightCols(w, scaled(g.part.q));
    }
  }

  void ResizeHeads() {
    for (auto& [n, heads] : latents_) {
      n->attrs[attr::LatentAttention::heads].i = heads;
    }
    for (auto& [n, g] : attentions_) {
      const AttentionOp& op = *FindAttentionOp(n->op);
      const int64_t group = g.heads / g.kv_heads;
      n->attrs[op.heads].i = g.part.q.size();
      n->attrs[op.kv_heads].i = g.part.kv.size();
      n->attrs[op.head_offset].i = g.part.q.begin - g.part.kv.begin * group;
      if (n->state != nullptr) n->state->kv_heads = g.part.kv.size();
    }
  }

  void CountSlicedNorms() {
    for (Node* n : sliced_norms_) {
      columns_[n] = n->weight(operand::RmsNorm::scale)->type.dims[0].size;
    }
  }

  // A norm over all heads of a row, of which this rank holds some: the ranks'
  // sums of squares are added first. The first rank that holds a KV head counts
  // it; the ranges of ranks grow, so that is where the rank before ends.
  void SliceNorm(Node* n) {
    const std::string name = n->result->name;
    Value* x = n->in(operand::RmsNorm::x);
    const Weight* scale = n->weight(operand::RmsNorm::scale);
    const HeadGeometry& g = heads_.at(scale);
    Range own = g.part.q;
    if (GetRole(scale->role).cut == Cut::kKvHeads) {
      own = g.part.kv;
      if (rank_ > 0) {
        const Range before =
            PartOfHeads(g.heads, g.kv_heads, tp_, rank_ - 1).kv;
        own.begin = std::min(std::max(own.begin, before.end), own.end);
      }
      own = {own.begin - g.part.kv.begin, own.end - g.part.kv.begin};
    } else {
      own = {0, own.size()};
    }
    Node* partial = graph_.AddNode(
        OpKind::kSumSquares, {x},
        {Attr{own.begin * g.head_dim, 0}, Attr{own.end * g.head_dim, 0}},
        name + ".squares.partial", nullptr, n);
    Node* sums = graph_.AddNode(OpKind::kAllReduce, {partial->result},
                                {Attr{static_cast<int64_t>(Group::kTp), 0}},
                                name + ".squares", nullptr, n);
    n->result->name = name + ".unsliced";
    Node* norm =
        graph_.AddNode(OpKind::kRmsNormOver,
                       {x, sums->result, n->operands[operand::RmsNorm::scale]},
                       {Attr{columns_.at(n), 0}, n->attrs[attr::RmsNorm::eps]},
                       name, nullptr, n);
    graph_.ReplaceUses(n->result, norm->result);
    graph_.EraseNode(n);
  }

  // The sum or the gathering that makes `v` whole, named as v was.
  void Complete(Node* n, OpKind op, std::vector<Attr> attrs) {
    const std::string name = n->result->name;
    n->result->name = name + ".partial";
    Node* next = nullptr;
    for (size_t i = 0; i + 1 < graph_.nodes().size(); ++i) {
      if (graph_.nodes()[i].get() == n) next = graph_.nodes()[i + 1].get();
    }
    Value* partial = n->result;
    const std::vector<Node*> users = graph_.Users(partial);
    const bool returned = graph_.IsReturned(partial);
    Node* whole =
        graph_.AddNode(op, {partial}, std::move(attrs), name, nullptr, next);
    for (Node* user : users) {
      for (Operand& o : user->operands) {
        if (o.value == partial) o.value = whole->result;
      }
    }
    if (returned) {
      for (Value*& r : graph_.returns()) {
        if (r == partial) r = whole->result;
      }
    }
  }

  static bool IsPartial(const Value* v) {
    if (v == nullptr || v->producer == nullptr ||
        v->producer->op != OpKind::kLinear) {
      return false;
    }
    const Weight* w = v->producer->weight(operand::Linear::w);
    const Cut cut = GetRole(w->role).cut;
    return cut == Cut::kOutHeads || cut == Cut::kMlpCols;
  }

  // The sum of two row-parallel products, of which `n` is one, where nothing
  // else reads them: one all-reduce serves both.
  Node* SumOfPartials(Node* n) const {
    const std::vector<Node*> users = graph_.Users(n->result);
    if (users.size() != 1 || users[0]->op != OpKind::kAdd ||
        graph_.IsReturned(n->result)) {
      return nullptr;
    }
    Node* sum = users[0];
    const Value *x = sum->in(operand::Add::x), *y = sum->in(operand::Add::y);
    if (x == y || !IsPartial(x) || !IsPartial(y) ||
        graph_.Users(x).size() != 1 || graph_.Users(y).size() != 1 ||
        sum->operands[operand::Add::bias].present()) {
      return nullptr;
    }
    return sum;
  }

  absl::Status AddCollectives() {
    std::vector<Node*> nodes;
    for (const auto& n : graph_.nodes()) nodes.push_back(n.get());
    const Attr tp{static_cast<int64_t>(Group::kTp), 0};
    for (Node* n : nodes) {
      if (n->op == OpKind::kEmbed) {
        const Weight* table = n->weight(operand::Embed::table);
        if (GetRole(table->role).cut != Cut::kVocabRows) continue;
        n->attrs[attr::Embed::begin].i =
            PartBegin(vocab_.at(table), tp_, rank_);
        Complete(n, OpKind::kAllReduce, {tp});
      } else if (n->op == OpKind::kLinear) {
        const Weight* w = n->weight(operand::Linear::w);
        const Cut cut = GetRole(w->role).cut;
        if (cut == Cut::kOutHeads || cut == Cut::kMlpCols) {
          if (n->operands[operand::Linear::bias].present() ||
              n->operands[operand::Linear::residual].present()) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "%%%s: has its bias or residual already, which each rank would "
                "add; run fuse-epilogues after tensor-slice",
                n->result->name));
          }
          Node* sum = SumOfPartials(n);
          // Once for both, at the first.
          if (sum == nullptr) {
            Complete(n, OpKind::kAllReduce, {tp});
          } else if (sum->in(operand::Add::x) == n->result) {
            Complete(sum, OpKind::kAllReduce, {tp});
          }
        } else if (cut == Cut::kVocabRows) {
          Node* last = n;
          const std::vector<Node*> users = graph_.Users(n->result);
          if (users.size() == 1 && users[0]->op == OpKind::kAddBias) {
            last = users[0];
          }
          Complete(last, OpKind::kAllGather, {tp, Attr{vocab_.at(w), 0}});
        }
      }
    }
    return graph_.InferShapes();
  }

  absl::Status CutRows(Weight& w, Range part) {
    if (GetRole(w.role).cut == Cut::kVocabRows) {
      vocab_[&w] = w.type.dims[0].size;
    }
    return CutWeightRows(w, part);
  }

  Graph& graph_;
  const int tp_, rank_;
  absl::flat_hash_map<const Weight*, HeadGeometry> heads_;
  absl::flat_hash_map<const Weight*, int64_t> vocab_;  // rows before the cut
  std::vector<std::pair<Node*, HeadGeometry>> attentions_;
  std::vector<std::pair<Node*, int64_t>> latents_;  // query heads kept
  std::vector<Node*> sliced_norms_;
  absl::flat_hash_map<const Node*, int64_t> columns_;  // of them, uncut
};

}  // namespace

HeadPart PartOfHeads(int64_t heads, int64_t kv_heads, int tp, int rank) {
  const int64_t group = heads / kv_heads;
  HeadPart part;
  if (tp <= kv_heads) {
    part.kv = {PartBegin(kv_heads, tp, rank),
               PartBegin(kv_heads, tp, rank + 1)};
    part.q = {part.kv.begin * group, part.kv.end * group};
    return part;
  }
  part.q = {PartBegin(heads, tp, rank), PartBegin(heads, tp, rank + 1)};
  if (part.q.size() > 0) {
    part.kv = {part.q.begin / group, CeilDiv(part.q.end, group)};
  } else {
    // Keeps head_offset inside its group.
    part.kv = {part.q.begin / group, part.q.begin / group};
  }
  return part;
}

Range PartOfMlp(int64_t intermediate, int tp, int rank) {
  const int64_t grains = CeilDiv(intermediate, kMlpGrain);
  const auto border = [&](int r) {
    return std::min(intermediate, PartBegin(grains, tp, r) * kMlpGrain);
  };
  return {border(rank), border(rank + 1)};
}

absl::Status TensorSlice::Run(Graph& graph) {
  if (tp_ < 1 || rank_ < 0 || rank_ >= tp_) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tp=%d, rank=%d: rank must be in [0, tp)", tp_, rank_));
  }
  if (tp_ == 1) return absl::OkStatus();
  return Slicer(graph, tp_, rank_).Run();
}

}  // namespace deepslice
