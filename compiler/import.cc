// The one builder for all families: it reads attributes, never a family's name.
#include "compiler/import.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ir/verifier.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

Attr I(int64_t i) { return Attr{.i = i}; }
Attr F(double f) { return Attr{.f = f}; }
template <typename Enum>
Attr E(Enum e) {
  return Attr{.i = static_cast<int64_t>(e)};
}

class Importer {
 public:
  explicit Importer(const ModelDescription& model) : m_(model) {
    for (const ModelWeight& w : m_.weights) by_name_[w.name] = &w;
  }

  absl::StatusOr<Graph> Run() {
    DS_RETURN_IF_ERROR(CheckComplete());
    g_.name = m_.family;
    ids_ = g_.AddParam("ids", {DType::kI32, {"T"}});
    positions_ = g_.AddParam("positions", {DType::kI32, {"T"}});
    slots_ = g_.AddParam("slots", {DType::kI32, {"T"}});
    blocks_ = g_.AddParam("blocks", {DType::kI32, {"S", "B"}});
    rows_ = g_.AddParam("rows", {DType::kI32, {"R"}});

    Value* x = Embedding();
    if (m_.positions == PositionKind::kRope) AddRopeTable();
    for (int64_t i = 0; i < m_.layers; ++i) {
      x = Mlp(absl::StrCat("layers.", i, "."),
              AttentionBlock(absl::StrCat("layers.", i, "."), m_.layer[i], x));
    }
    x = g_.AddNode(OpKind::kGatherRows, {x, rows_}, {}, "final_rows")->result;
    x = Norm(x, "final_norm", "final_normed");
    g_.returns().push_back(Linear(x, "head", "logits"));
    DS_RETURN_IF_ERROR(VerifyGraph(g_));
    return std::move(g_);
  }

 private:
  // A policy may have a pattern too few for its attributes.
  absl::Status CheckComplete() const {
    std::vector<std::string> names = {"embed", "final_norm", "head"};
    if (m_.positions == PositionKind::kLearned) names.push_back("pos_embed");
    for (int64_t i = 0; i < m_.layers; ++i) {
      for (absl::string_view slot :
           {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_out", "mlp_norm",
            "mlp_up", "mlp_out"}) {
        names.push_back(absl::StrCat("layers.", i, ".", slot));
      }
      if (m_.gated) names.push_back(absl::StrCat("layers.", i, ".mlp_gate"));
    }
    for (const std::string& name : names) {
      if (Has(name)) continue;
      return absl::InternalError(
          absl::StrCat("policies/", m_.family, ".json: nothing makes @", name,
                       ", which its attributes ask for"));
    }
    return absl::OkStatus();
  }

  // Each is used once, so each call makes it.
  Weight* Get(const std::string& name) {
    const ModelWeight& described = *by_name_.at(name);
    TensorType type;
    for (int64_t n : described.shape) type.dims.push_back(n);
    Weight* w = g_.AddWeight(name, type, described.role);
    w->source = described.source;
    return w;
  }
  bool Has(const std::string& name) const { return by_name_.contains(name); }

  Value* Embedding() {
    if (m_.positions == PositionKind::kRope) {
      return g_.AddNode(OpKind::kEmbed, {ids_, Get("embed")}, {I(0)}, "embed")
          ->result;
    }
    Value* tokens =
        g_.AddNode(OpKind::kEmbed, {ids_, Get("embed")}, {I(0)}, "tok_embed")
            ->result;
    Value* positions = g_.AddNode(OpKind::kEmbed,
                                  {positions_, Get("pos_embed")}, {I(0)}, "pos")
                           ->result;
    return g_.AddNode(OpKind::kAdd, {tokens, positions}, {}, "embed")->result;
  }

  void AddRopeTable() {
    rope_freqs_ =
        g_.AddWeight("rope_freqs", {DType::kF32, {m_.rope.rotary_dim / 2}},
                     Role::kRopeFreqs);
    rope_freqs_->source.formula = m_.rope.formula;
    rope_freqs_->source.arguments = m_.rope.arguments;
  }

  Value* Norm(Value* x, const std::string& weight, const std::string& result) {
    if (m_.norm == NormKind::kRms) {
      return g_
          .AddNode(OpKind::kRmsNorm, {x, Get(weight)}, {F(m_.norm_eps)}, result)
          ->result;
    }
    const std::string bias = weight + ".bias";
    return g_
        .AddNode(OpKind::kLayerNorm,
                 {x, Get(weight), Has(bias) ? Get(bias) : Operand()},
                 {F(m_.norm_eps)}, result)
        ->result;
  }

  Value* Linear(Value* x, const std::string& weight,
                const std::string& result) {
    const std::string bias = weight + ".bias";
    if (!Has(bias)) {
      return g_.AddNode(OpKind::kLinear, {x, Get(weight)}, {}, result)->result;
    }
    Value* product =
        g_.AddNode(OpKind::kLinear, {x, Get(weight)}, {}, result + ".nobias")
            ->result;
    return g_.AddNode(OpKind::kAddBias, {product, Get(bias)}, {}, result)
        ->result;
  }

  Value* Rotate(Value* x, int64_t heads, const std::string& result) {
    return g_
        .AddNode(OpKind::kRope, {x, positions_, rope_freqs_},
                 {I(heads), I(m_.head_dim), I(m_.rope.rotary_dim),
                  E(m_.rope.style), F(m_.rope.scale)},
                 result)
        ->result;
  }

  // x plus attention over the norm of x.
  Value* AttentionBlock(const std::string& layer, const LayerAttributes& a,
                        Value* x) {
    Value* normed = Norm(x, layer + "attn_norm", layer + "attn_normed");
    Value* q = Linear(normed, layer + "attn_q", layer + "q");
    Value* k = Linear(normed, layer + "attn_k", layer + "k");
    Value* v = Linear(normed, layer + "attn_v", layer + "v");
    if (m_.positions == PositionKind::kRope) {
      q = Rotate(q, m_.heads, layer + "q_rot");
      k = Rotate(k, m_.kv_heads, layer + "k_rot");
    }
    State* cache =
        g_.AddState(layer + "kv", StateKind::kFull, m_.kv_heads, m_.head_dim);
    Value* attended =
        g_.AddNode(OpKind::kAttention, {q, k, v, positions_, slots_, blocks_},
                   {I(m_.heads), I(m_.kv_heads), I(m_.heads / m_.kv_heads),
                    I(0), I(m_.head_dim), F(a.attention_scale), I(a.window)},
                   layer + "attn", cache)
            ->result;
    Value* out = Linear(attended, layer + "attn_out", layer + "attn_out");
    return g_.AddNode(OpKind::kAdd, {x, out}, {}, layer + "attn_residual")
        ->result;
  }

  // x plus the MLP over the norm of x.
  Value* Mlp(const std::string& layer, Value* x) {
    Value* normed = Norm(x, layer + "mlp_norm", layer + "mlp_normed");
    Value* act = nullptr;
    if (m_.gated) {
      Value* gate = Linear(normed, layer + "mlp_gate", layer + "gate");
      Value* up = Linear(normed, layer + "mlp_up", layer + "up");
      Value* gate_act = Activate(gate, layer + "gate_act");
      act = g_.AddNode(OpKind::kMul, {gate_act, up}, {}, layer + "act")->result;
    } else {
      Value* up = Linear(normed, layer + "mlp_up", layer + "up");
      act = Activate(up, layer + "act");
    }
    Value* out = Linear(act, layer + "mlp_out", layer + "mlp_out");
    return g_.AddNode(OpKind::kAdd, {x, out}, {}, layer + "out")->result;
  }

  Value* Activate(Value* x, const std::string& result) {
    return g_.AddNode(OpKind::kActivation, {x}, {E(m_.activation)}, result)
        ->result;
  }

  const ModelDescription& m_;
  absl::flat_hash_map<std::string, const ModelWeight*> by_name_;
  Graph g_;
  Value *ids_ = nullptr, *positions_ = nullptr, *slots_ = nullptr,
        *blocks_ = nullptr, *rows_ = nullptr;
  Weight* rope_freqs_ = nullptr;
};

}  // namespace

absl::StatusOr<Graph> ImportGraph(const ModelDescription& model) {
  return Importer(model).Run();
}

}  // namespace deepslice
