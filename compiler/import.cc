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
    if (!m_.rope.long_arguments.empty()) {
      horizons_ = g_.AddParam("horizons", {DType::kI32, {"S"}});
    } else if (m_.rope.ntk_factor > 0) {
      horizons_ = g_.AddParam("prompts", {DType::kI32, {"S"}});
    }

    Value* x = Embedding();
    AddTables();
    for (int64_t i = 0; i < m_.layers; ++i) x = Layer(i, x);
    x = g_.AddNode(OpKind::kGatherRows, {x, rows_}, {}, "final_rows")->result;
    if (m_.final_norm) x = Norm(x, "final_norm", "final_normed");
    g_.returns().push_back(Head(x));
    DS_RETURN_IF_ERROR(VerifyGraph(g_));
    return std::move(g_);
  }

 private:
  bool is_parallel() const { return m_.residual == ResidualKind::kParallel; }
  bool norms_before() const {
    return m_.norm_placement == NormPlacement::kPre ||
           m_.norm_placement == NormPlacement::kSandwich;
  }
  bool norms_after() const {
    return m_.norm_placement == NormPlacement::kBranch ||
           m_.norm_placement == NormPlacement::kSandwich;
  }

  std::vector<absl::string_view> AttentionSlots() const {
    if (!m_.latent.has_value()) return {"attn_q", "attn_k", "attn_v"};
    std::vector<absl::string_view> slots = {
        "attn_q_nope", "attn_q_rope", "attn_latent", "attn_latent_norm",
        "attn_k_rope", "attn_k_up",   "attn_v_up"};
    if (m_.latent->query_rank > 0) {
      slots.insert(slots.end(), {"attn_q_down", "attn_q_down_norm"});
    }
    return slots;
  }

  // A policy may have a pattern too few for its attributes.
  absl::Status CheckComplete() const {
    std::vector<std::string> names = {"embed", "head"};
    const auto norm = [&](std::string name) {
      if (m_.norm_affine) names.push_back(std::move(name));
    };
    if (m_.positions == PositionKind::kLearned) names.push_back("pos_embed");
    if (m_.final_norm) norm("final_norm");
    if (m_.embed_norm) norm("embed_norm");
    if (m_.embed_dim != m_.hidden_size) {
      names.insert(names.end(), {"embed_in", "embed_out"});
    }
    for (int64_t i = 0; i < m_.layers; ++i) {
      const std::string layer = absl::StrCat("layers.", i, ".");
      for (absl::string_view slot : {"attn_out", "mlp_up", "mlp_out"}) {
        names.push_back(absl::StrCat(layer, slot));
      }
      for (absl::string_view slot : AttentionSlots()) {
        names.push_back(absl::StrCat(layer, slot));
      }
      if (m_.gated) names.push_back(layer + "mlp_gate");
      if (m_.norm_placement != NormPlacement::kBranch) {
        norm(layer + "attn_norm");
        if (!is_parallel()) norm(layer + "mlp_norm");
      }
      if (norms_after()) {
        norm(layer + "attn_post_norm");
        norm(layer + "mlp_post_norm");
      }
      if (m_.qk_norm != QkNorm::kNone) {
        names.push_back(layer + "attn_q_norm");
        names.push_back(layer + "attn_k_norm");
      }
    }
    for (const std::string& name : names) {
      if (Has(name)) continue;
      return absl::InternalError(
          absl::StrCat("policies/", m_.family, ".json: nothing makes @", name,
                       ", which its attributes ask for"));
    }
    if (is_parallel() && m_.norm_placement != NormPlacement::kPre) {
      return absl::InternalError(
          absl::StrCat("policies/", m_.family,
                       ".json: parallel branches with a norm that is not "
                       "before them"));
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

  Weight* Ones(const std::string& name, int64_t n) {
    Weight* w = g_.AddWeight(name, {DType::kF32, {n}}, Role::kNorm);
    w->source.formula = "ones";
    w->source.arguments = {{"begin", 0}, {"end", static_cast<double>(n)}};
    return w;
  }

  Value* Scaled(Value* x, double factor, const std::string& result) {
    return g_.AddNode(OpKind::kScale, {x}, {F(factor)}, result)->result;
  }

  Value* Embedding() {
    Value* x =
        g_.AddNode(OpKind::kEmbed, {ids_, Get("embed")}, {I(0)}, "tok_embed")
            ->result;
    if (m_.embed_scale != 1) {
      x = Scaled(x, m_.embed_scale, "scaled_embed");
    }
    if (m_.embed_dim != m_.hidden_size) {
      x = Product(x, "embed_in", "wide_embed");
    }
    if (m_.positions == PositionKind::kLearned) {
      Value* positions =
          g_.AddNode(OpKind::kEmbed, {positions_, Get("pos_embed")}, {I(0)},
                     "pos")
              ->result;
      x = g_.AddNode(OpKind::kAdd, {x, positions}, {}, "pos_embed")->result;
    }
    if (m_.embed_norm) x = Norm(x, "embed_norm", "normed_embed");
    x->name = "embed";
    return x;
  }

  Value* Head(Value* x) {
    if (m_.embed_dim != m_.hidden_size) {
      x = Product(x, "embed_out", "final_narrow");
    }
    x = Linear(x, "head", "logits");
    if (m_.logit_scale != 1) {
      x->name = "unscaled_logits";
      x = Scaled(x, m_.logit_scale, "logits");
    }
    if (m_.logit_softcap > 0) {
      x->name = "uncapped_logits";
      x = g_.AddNode(OpKind::kSoftcap, {x}, {F(m_.logit_softcap)}, "logits")
              ->result;
    }
    return x;
  }

  // The tables that layers share.
  void AddTables() {
    if (m_.positions == PositionKind::kRope) {
      rope_freqs_ = RopeTable("rope_freqs", m_.rope, m_.rope.arguments);
      if (!m_.rope.long_arguments.empty()) {
        long_freqs_ =
            RopeTable("rope_long_freqs", m_.rope, m_.rope.long_arguments);
      }
      bool is_local = false;
      for (const LayerAttributes& a : m_.layer) is_local |= a.window > 0;
      if (is_local && m_.local_rope.has_value()) {
        local_freqs_ = RopeTable("rope_local_freqs", *m_.local_rope,
                                 m_.local_rope->arguments);
      }
    } else if (m_.positions == PositionKind::kAlibi) {
      slopes_ = g_.AddWeight("alibi_slopes", {DType::kF32, {m_.heads}},
                             Role::kAlibiSlopes);
      const auto heads = static_cast<double>(m_.heads);
      slopes_->source.formula = "alibi_slopes";
      slopes_->source.arguments = {
          {"heads", heads}, {"scale", 1}, {"begin", 0}, {"end", heads}};
    }
  }

  Weight* RopeTable(
      absl::string_view name, const RopeAttributes& rope,
      const std::vector<std::pair<std::string, double>>& arguments) {
    Weight* w = g_.AddWeight(name, {DType::kF32, {rope.rotary_dim / 2}},
                             Role::kRopeFreqs);
    w->source.formula = rope.formula;
    w->source.arguments = arguments;
    return w;
  }

  Value* Norm(Value* x, const std::string& weight, const std::string& result) {
    Weight* scale = m_.norm_affine ? Get(weight) : Ones(weight, m_.hidden_size);
    if (m_.norm == NormKind::kRms) {
      return g_.AddNode(OpKind::kRmsNorm, {x, scale}, {F(m_.norm_eps)}, result)
          ->result;
    }
    const std::string bias = weight + ".bias";
    return g_
        .AddNode(OpKind::kLayerNorm,
                 {x, scale, Has(bias) ? Get(bias) : Operand()},
                 {F(m_.norm_eps)}, result)
        ->result;
  }

  Value* Product(Value* x, const std::string& weight,
                 const std::string& result) {
    return g_.AddNode(OpKind::kLinear, {x, Get(weight)}, {}, result)->result;
  }
  // x itself, when there is no bias.
  Value* Biased(Value* x, const std::string& weight,
                const std::string& result) {
    const std::string bias = weight + ".bias";
    if (!Has(bias)) return x;
    return g_.AddNode(OpKind::kAddBias, {x, Get(bias)}, {}, result)->result;
  }
  Value* Linear(Value* x, const std::string& weight,
                const std::string& result) {
    const bool biased = Has(weight + ".bias");
    Value* product = Product(x, weight, biased ? result + ".nobias" : result);
    return Biased(product, weight, result);
  }

  Value* Rotate(Value* x, int64_t heads, bool is_local,
                const std::string& result) {
    const bool other = is_local && local_freqs_ != nullptr;
    const RopeAttributes& rope = other ? *m_.local_rope : m_.rope;
    std::vector<Operand> operands = {x, positions_,
                                     other ? local_freqs_ : rope_freqs_};
    const bool grows = !other && horizons_ != nullptr;
    if (grows) {
      operands.insert(operands.end(),
                      {long_freqs_ == nullptr ? Operand() : long_freqs_,
                       Operand(slots_), Operand(horizons_)});
    }
    return g_
        .AddNode(OpKind::kRope, std::move(operands),
                 {I(heads), I(m_.head_dim), I(rope.rotary_dim), E(rope.style),
                  F(rope.scale), I(grows ? rope.long_from : 0),
                  F(grows ? rope.ntk_factor : 0)},
                 result)
        ->result;
  }

  // Queries or keys, normed as the family does.
  Value* HeadsNorm(Value* x, int64_t heads, const std::string& weight,
                   const std::string& result) {
    if (m_.qk_norm == QkNorm::kNone) return x;
    if (m_.qk_norm == QkNorm::kRms) {
      return g_
          .AddNode(OpKind::kRmsNorm, {x, Get(weight)}, {F(m_.norm_eps)}, result)
          ->result;
    }
    const NormKind kind =
        m_.qk_norm == QkNorm::kHeadRms ? NormKind::kRms : NormKind::kLayer;
    const std::string bias = weight + ".bias";
    return g_
        .AddNode(OpKind::kHeadNorm,
                 {x, Get(weight), Has(bias) ? Get(bias) : Operand()},
                 {E(kind), I(heads), I(m_.head_dim), F(m_.norm_eps)}, result)
        ->result;
  }

  Value* LatentNorm(Value* x, const std::string& weight,
                    const std::string& result) {
    return g_
        .AddNode(OpKind::kRmsNorm, {x, Get(weight)}, {F(m_.latent->norm_eps)},
                 result)
        ->result;
  }

  // Latent attention, with the projection of keys moved to the queries and that
  // of values to what is attended: only the latent and the rotated key are
  // kept.
  Value* LatentAttended(const std::string& layer, const LayerAttributes& a,
                        Value* normed) {
    const LatentSizes& s = *m_.latent;
    Value* source = normed;
    if (s.query_rank > 0) {
      source = Linear(normed, layer + "attn_q_down", layer + "q_down");
      source = LatentNorm(source, layer + "attn_q_down_norm",
                          layer + "q_down_normed");
    }
    Value* q_nope = Product(source, layer + "attn_q_nope", layer + "q_nope");
    Value* q_rope = Product(source, layer + "attn_q_rope", layer + "q_rope");
    Value* latent = Linear(normed, layer + "attn_latent", layer + "latent");
    latent =
        LatentNorm(latent, layer + "attn_latent_norm", layer + "latent_normed");
    Value* k_rope = Linear(normed, layer + "attn_k_rope", layer + "k_rope");
    q_rope = Rotate(q_rope, m_.heads, false, layer + "q_rot");
    k_rope = Rotate(k_rope, 1, false, layer + "k_rot");
    Value* q_latent =
        g_.AddNode(OpKind::kHeadLinear, {q_nope, Get(layer + "attn_k_up")},
                   {I(m_.heads), I(1)}, layer + "q_latent")
            ->result;
    Value* q = g_.AddNode(OpKind::kConcatHeads, {q_latent, q_rope},
                          {I(m_.heads)}, layer + "q")
                   ->result;
    Value* k =
        g_.AddNode(OpKind::kConcatHeads, {latent, k_rope}, {I(1)}, layer + "k")
            ->result;
    const int64_t dim = s.rank + s.rope_dim;
    State* cache = g_.AddState(layer + "kv", StateKind::kLatent, 1, dim);
    Value* attended =
        g_.AddNode(OpKind::kLatentAttention,
                   {q, k, positions_, slots_, blocks_},
                   {I(m_.heads), I(dim), I(s.rank), F(a.attention_scale)},
                   layer + "attn_latent", cache)
            ->result;
    return g_
        .AddNode(OpKind::kHeadLinear, {attended, Get(layer + "attn_v_up")},
                 {I(m_.heads), I(0)}, layer + "attn")
        ->result;
  }

  // What attention makes of its normed input, before the output projection.
  Value* Attended(const std::string& layer, const LayerAttributes& a,
                  Value* normed) {
    if (m_.latent.has_value()) return LatentAttended(layer, a, normed);
    Value* q = Linear(normed, layer + "attn_q", layer + "q");
    Value* k = Linear(normed, layer + "attn_k", layer + "k");
    Value* v = Linear(normed, layer + "attn_v", layer + "v");
    q = HeadsNorm(q, m_.heads, layer + "attn_q_norm", layer + "q_normed");
    k = HeadsNorm(k, m_.kv_heads, layer + "attn_k_norm", layer + "k_normed");
    if (m_.positions == PositionKind::kRope) {
      q = Rotate(q, m_.heads, a.window > 0, layer + "q_rot");
      k = Rotate(k, m_.kv_heads, a.window > 0, layer + "k_rot");
    }
    State* cache =
        g_.AddState(layer + "kv", StateKind::kFull, m_.kv_heads, m_.head_dim);
    std::vector<Operand> operands = {q, k, v, positions_, slots_, blocks_};
    if (slopes_ != nullptr) operands.push_back(slopes_);
    return g_
        .AddNode(OpKind::kAttention, std::move(operands),
                 {I(m_.heads), I(m_.kv_heads), I(m_.heads / m_.kv_heads), I(0),
                  I(m_.head_dim), F(a.attention_scale), I(a.window),
                  F(m_.attention_softcap), E(m_.alibi)},
                 layer + "attn", cache)
        ->result;
  }

  // What the MLP makes of its normed input, before the output projection.
  Value* Activated(const std::string& layer, Value* normed) {
    if (!m_.gated) {
      Value* up = Linear(normed, layer + "mlp_up", layer + "up");
      return Activate(up, layer + "act");
    }
    Value* gate = Linear(normed, layer + "mlp_gate", layer + "gate");
    Value* up = Linear(normed, layer + "mlp_up", layer + "up");
    Value* gate_act = Activate(gate, layer + "gate_act");
    return g_.AddNode(OpKind::kMul, {gate_act, up}, {}, layer + "act")->result;
  }

  Value* Activate(Value* x, const std::string& result) {
    return g_.AddNode(OpKind::kActivation, {x}, {E(m_.activation)}, result)
        ->result;
  }

  Value* Layer(int64_t i, Value* x) {
    const std::string layer = absl::StrCat("layers.", i, ".");
    if (is_parallel()) return Parallel(layer, m_.layer[i], x);
    Value* in = BranchInput(layer, "attn", x);
    Value* out = Linear(Attended(layer, m_.layer[i], in), layer + "attn_out",
                        layer + "attn_out");
    x = AddBranch(layer, "attn", x, out, layer + "attn_residual");
    in = BranchInput(layer, "mlp", x);
    out = Linear(Activated(layer, in), layer + "mlp_out", layer + "mlp_out");
    return AddBranch(layer, "mlp", x, out, layer + "out");
  }

  // `branch` is "attn" or "mlp".
  Value* BranchInput(const std::string& layer, const std::string& branch,
                     Value* x) {
    if (!norms_before()) return x;
    return Norm(x, layer + branch + "_norm", layer + branch + "_normed");
  }
  Value* AddBranch(const std::string& layer, const std::string& branch,
                   Value* x, Value* out, const std::string& result) {
    if (norms_after()) {
      out = Norm(out, layer + branch + "_post_norm",
                 layer + branch + "_post_normed");
    }
    if (m_.residual_scale != 1) {
      out = Scaled(out, m_.residual_scale, layer + branch + "_scaled");
    }
    const bool normed = m_.norm_placement == NormPlacement::kPost;
    Value* sum = g_.AddNode(OpKind::kAdd, {x, out}, {},
                            normed ? layer + branch + "_sum" : result)
                     ->result;
    return normed ? Norm(sum, layer + branch + "_norm", result) : sum;
  }

  // x plus both branches. Their products are added before anything else is, so
  // that one sum over the ranks serves both.
  Value* Parallel(const std::string& layer, const LayerAttributes& a,
                  Value* x) {
    Value* normed = Norm(x, layer + "attn_norm", layer + "attn_normed");
    Value* mlp_in = Has(layer + "mlp_norm")
                        ? Norm(x, layer + "mlp_norm", layer + "mlp_normed")
                        : normed;
    const std::string attn = layer + "attn_out", mlp = layer + "mlp_out";
    Value* left = Product(Attended(layer, a, normed), attn, attn + ".nobias");
    Value* right = Product(Activated(layer, mlp_in), mlp, mlp + ".nobias");
    Value* out =
        g_.AddNode(OpKind::kAdd, {left, right}, {}, layer + "branches.nobias")
            ->result;
    out = Biased(out, attn, layer + "branches.attn");
    out = Biased(out, mlp, layer + "branches");
    if (m_.residual_scale != 1) {
      out = Scaled(out, m_.residual_scale, layer + "branches_scaled");
    }
    return g_.AddNode(OpKind::kAdd, {x, out}, {}, layer + "out")->result;
  }

  const ModelDescription& m_;
  absl::flat_hash_map<std::string, const ModelWeight*> by_name_;
  Graph g_;
  Value *ids_ = nullptr, *positions_ = nullptr, *slots_ = nullptr,
        *blocks_ = nullptr, *rows_ = nullptr, *horizons_ = nullptr;
  Weight *rope_freqs_ = nullptr, *long_freqs_ = nullptr,
         *local_freqs_ = nullptr, *slopes_ = nullptr;
};

}  // namespace

absl::StatusOr<Graph> ImportGraph(const ModelDescription& model) {
  return Importer(model).Run();
}

}  // namespace deepslice
