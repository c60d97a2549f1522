// The one builder of layers.
#include "compiler/stack_builder.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

Attr I(int64_t i) { return Attr{.i = i}; }
Attr F(double f) { return Attr{.f = f}; }
template <typename Enum>
Attr E(Enum e) {
  return Attr{.i = static_cast<int64_t>(e)};
}

}  // namespace

StackBuilder::StackBuilder(const ModelDescription& model,
                           const std::vector<ModelWeight>& weights,
                           std::string prefix, Graph* graph)
    : m_(model), prefix_(std::move(prefix)), g_(*graph) {
  for (const ModelWeight& w : weights) by_name_[w.name] = &w;
}

Value* StackBuilder::Add(OpKind op, std::vector<Operand> operands,
                         std::vector<Attr> attrs, const std::string& result,
                         State* state) {
  return g_
      .AddNode(op, std::move(operands), std::move(attrs), prefix_ + result,
               state)
      ->result;
}

bool StackBuilder::is_encoder() const {
  return !m_.causal || m_.head != TaskHead::kCausalLm;
}

std::vector<absl::string_view> StackBuilder::AttentionSlots() const {
  if (!m_.latent.has_value()) return {"attn_q", "attn_k", "attn_v"};
  std::vector<absl::string_view> slots = {
      "attn_q_nope", "attn_q_rope", "attn_latent", "attn_latent_norm",
      "attn_k_rope", "attn_k_up",   "attn_v_up"};
  if (m_.latent->query_rank > 0) {
    slots.insert(slots.end(), {"attn_q_down", "attn_q_down_norm"});
  }
  return slots;
}

absl::Status StackBuilder::CheckComplete() const {
  std::vector<std::string> names;
  if (prefix_.empty()) names.push_back("embed");
  if (m_.head == TaskHead::kCausalLm || m_.head == TaskHead::kMaskedLm) {
    names.push_back("head");
  }
  if (m_.types > 0) names.push_back("type_embed");
  if (m_.rel_buckets > 0) names.push_back("rel_bias");
  if (m_.image_size > 0) {
    names.insert(names.end(), {"patch_embed", "class_embed"});
  }
  if (m_.projection_size > 0) names.push_back("projection");
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
    if (!m_.towers.empty() && m_.head == TaskHead::kCausalLm) {
      for (absl::string_view slot :
           {"cross_q", "cross_k", "cross_v", "cross_out"}) {
        names.push_back(absl::StrCat(layer, slot));
      }
      norm(layer + "cross_norm");
    }
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
    return absl::InternalError(absl::StrCat("policies/", m_.family,
                                            ".json: nothing makes @", name,
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

Weight* StackBuilder::Get(const std::string& name) {
  const std::string full = name == "embed" ? name : prefix_ + name;
  if (Weight* made = g_.FindWeight(full)) return made;
  const ModelWeight& described = *by_name_.at(full);
  TensorType type;
  for (int64_t n : described.shape) type.dims.push_back(n);
  Weight* w = g_.AddWeight(full, type, described.role);
  w->source = described.source;
  return w;
}

Weight* StackBuilder::Ones(const std::string& name, int64_t n) {
  Weight* w = g_.AddWeight(prefix_ + name, {DType::kF32, {n}}, Role::kNorm);
  w->source.formula = "ones";
  w->source.arguments = {{"begin", 0}, {"end", static_cast<double>(n)}};
  return w;
}

Value* StackBuilder::Scaled(Value* x, double factor,
                            const std::string& result) {
  return Add(OpKind::kScale, {x}, {F(factor)}, result);
}

Value* StackBuilder::Embedding() {
  Value* x = Add(OpKind::kEmbed, {in_.ids, Get("embed")}, {I(0)}, "tok_embed");
  if (m_.embed_scale != 1) {
    x = Scaled(x, m_.embed_scale, "scaled_embed");
  }
  if (m_.embed_dim != m_.hidden_size) {
    x = Product(x, "embed_in", "wide_embed");
  }
  if (m_.positions == PositionKind::kLearned) {
    Value* positions =
        Add(OpKind::kEmbed, {in_.positions, Get("pos_embed")}, {I(0)}, "pos");
    x = Add(OpKind::kAdd, {x, positions}, {}, "pos_embed");
  }
  if (m_.types > 0) {
    Value* types =
        Add(OpKind::kEmbed, {in_.types, Get("type_embed")}, {I(0)}, "type");
    x = Add(OpKind::kAdd, {x, types}, {}, "typed_embed");
  }
  if (m_.embed_norm) x = Norm(x, "embed_norm", "normed_embed");
  x->name = prefix_ + "embed";
  return x;
}

Value* StackBuilder::PatchEmbedding(Value* pixels) {
  Value* x = Linear(pixels, "patch_embed", "patches");
  // Only position 0 has a row in this table.
  Value* first =
      Add(OpKind::kEmbed, {in_.positions, Get("class_embed")}, {I(0)}, "class");
  x = Add(OpKind::kAdd, {x, first}, {}, "classed_patches");
  Value* positions =
      Add(OpKind::kEmbed, {in_.positions, Get("pos_embed")}, {I(0)}, "pos");
  x = Add(OpKind::kAdd, {x, positions}, {}, "pos_embed");
  if (m_.embed_norm) x = Norm(x, "embed_norm", "normed_embed");
  x->name = prefix_ + "embed";
  return x;
}

Value* StackBuilder::UnitRows(Value* x, int64_t size,
                              const std::string& result) {
  // x / sqrt(mean(x^2)) has the length sqrt(size).
  x = Add(OpKind::kRmsNorm, {x, Ones("unit", size)}, {F(0)},
          result + ".normed");
  return Scaled(x, 1 / std::sqrt(static_cast<double>(size)), result);
}

void StackBuilder::AddTables() {
  if (m_.positions == PositionKind::kRope) {
    // A model may have layers of one kind alone (Gemma 3 of few layers).
    const auto is_local = [&](const LayerAttributes& a) {
      return a.window > 0 && m_.local_rope.has_value();
    };
    if (!std::all_of(m_.layer.begin(), m_.layer.end(), is_local)) {
      rope_freqs_ = RopeTable("rope_freqs", m_.rope, m_.rope.arguments);
      if (!m_.rope.long_arguments.empty()) {
        long_freqs_ =
            RopeTable("rope_long_freqs", m_.rope, m_.rope.long_arguments);
      }
    }
    if (std::any_of(m_.layer.begin(), m_.layer.end(), is_local)) {
      local_freqs_ = RopeTable("rope_local_freqs", *m_.local_rope,
                               m_.local_rope->arguments);
    }
  } else if (m_.positions == PositionKind::kAlibi) {
    slopes_ = g_.AddWeight(prefix_ + "alibi_slopes", {DType::kF32, {m_.heads}},
                           Role::kAlibiSlopes);
    const auto heads = static_cast<double>(m_.heads);
    slopes_->source.formula = "alibi_slopes";
    slopes_->source.arguments = {
        {"heads", heads}, {"scale", 1}, {"begin", 0}, {"end", heads}};
  }
}

Weight* StackBuilder::RopeTable(
    absl::string_view name, const RopeAttributes& rope,
    const std::vector<std::pair<std::string, double>>& arguments) {
  Weight* w =
      g_.AddWeight(prefix_ + std::string(name),
                   {DType::kF32, {rope.rotary_dim / 2}}, Role::kRopeFreqs);
  w->source.formula = rope.formula;
  w->source.arguments = arguments;
  return w;
}

Value* StackBuilder::Norm(Value* x, const std::string& weight,
                          const std::string& result) {
  Weight* scale = m_.norm_affine ? Get(weight) : Ones(weight, m_.hidden_size);
  if (m_.norm == NormKind::kRms) {
    return Add(OpKind::kRmsNorm, {x, scale}, {F(m_.norm_eps)}, result);
  }
  const std::string bias = weight + ".bias";
  return Add(OpKind::kLayerNorm, {x, scale, Has(bias) ? Get(bias) : Operand()},
             {F(m_.norm_eps)}, result);
}

Value* StackBuilder::Product(Value* x, const std::string& weight,
                             const std::string& result) {
  return Add(OpKind::kLinear, {x, Get(weight)}, {}, result);
}

Value* StackBuilder::Biased(Value* x, const std::string& weight,
                            const std::string& result) {
  const std::string bias = weight + ".bias";
  if (!Has(bias)) return x;
  return Add(OpKind::kAddBias, {x, Get(bias)}, {}, result);
}

Value* StackBuilder::Linear(Value* x, const std::string& weight,
                            const std::string& result) {
  const bool biased = Has(weight + ".bias");
  Value* product = Product(x, weight, biased ? result + ".nobias" : result);
  return Biased(product, weight, result);
}

Value* StackBuilder::Rotate(Value* x, int64_t heads, bool is_local,
                            const std::string& result) {
  const bool other = is_local && local_freqs_ != nullptr;
  const RopeAttributes& rope = other ? *m_.local_rope : m_.rope;
  std::vector<Operand> operands = {x, in_.positions,
                                   other ? local_freqs_ : rope_freqs_};
  const bool grows = !other && in_.horizons != nullptr;
  if (grows) {
    operands.insert(operands.end(),
                    {long_freqs_ == nullptr ? Operand() : long_freqs_,
                     Operand(in_.slots), Operand(in_.horizons)});
  }
  return Add(OpKind::kRope, std::move(operands),
             {I(heads), I(m_.head_dim), I(rope.rotary_dim), E(rope.style),
              F(rope.scale), I(grows ? rope.long_from : 0),
              F(grows ? rope.ntk_factor : 0)},
             result);
}

Value* StackBuilder::HeadsNorm(Value* x, int64_t heads,
                               const std::string& weight,
                               const std::string& result) {
  if (m_.qk_norm == QkNorm::kNone) return x;
  if (m_.qk_norm == QkNorm::kRms) {
    return Add(OpKind::kRmsNorm, {x, Get(weight)}, {F(m_.norm_eps)}, result);
  }
  const NormKind kind =
      m_.qk_norm == QkNorm::kHeadRms ? NormKind::kRms : NormKind::kLayer;
  const std::string bias = weight + ".bias";
  return Add(OpKind::kHeadNorm,
             {x, Get(weight), Has(bias) ? Get(bias) : Operand()},
             {E(kind), I(heads), I(m_.head_dim), F(m_.norm_eps)}, result);
}

Value* StackBuilder::LatentNorm(Value* x, const std::string& weight,
                                const std::string& result) {
  return Add(OpKind::kRmsNorm, {x, Get(weight)}, {F(m_.latent->norm_eps)},
             result);
}

Value* StackBuilder::LatentAttended(const std::string& layer,
                                    const LayerAttributes& a, Value* normed) {
  const LatentSizes& s = *m_.latent;
  Value* source = normed;
  if (s.query_rank > 0) {
    source = Linear(normed, layer + "attn_q_down", layer + "q_down");
    source =
        LatentNorm(source, layer + "attn_q_down_norm", layer + "q_down_normed");
  }
  Value* q_nope = Product(source, layer + "attn_q_nope", layer + "q_nope");
  Value* q_rope = Product(source, layer + "attn_q_rope", layer + "q_rope");
  Value* latent = Linear(normed, layer + "attn_latent", layer + "latent");
  latent =
      LatentNorm(latent, layer + "attn_latent_norm", layer + "latent_normed");
  Value* k_rope = Linear(normed, layer + "attn_k_rope", layer + "k_rope");
  q_rope = Rotate(q_rope, m_.heads, false, layer + "q_rot");
  k_rope = Rotate(k_rope, 1, false, layer + "k_rot");
  Value* q_latent = Add(OpKind::kHeadLinear, {q_nope, Get(layer + "attn_k_up")},
                        {I(m_.heads), I(1)}, layer + "q_latent");
  Value* q =
      Add(OpKind::kConcatHeads, {q_latent, q_rope}, {I(m_.heads)}, layer + "q");
  Value* k = Add(OpKind::kConcatHeads, {latent, k_rope}, {I(1)}, layer + "k");
  const int64_t dim = s.rank + s.rope_dim;
  State* cache =
      g_.AddState(prefix_ + layer + "kv", StateKind::kLatent, 1, dim);
  Value* attended = Add(OpKind::kLatentAttention,
                        {q, k, in_.positions, in_.slots, in_.blocks},
                        {I(m_.heads), I(dim), I(s.rank), F(a.attention_scale)},
                        layer + "attn_latent", cache);
  return Add(OpKind::kHeadLinear, {attended, Get(layer + "attn_v_up")},
             {I(m_.heads), I(0)}, layer + "attn");
}

Value* StackBuilder::Attended(const std::string& layer,
                              const LayerAttributes& a, Value* normed) {
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
  Weight* relative = m_.rel_buckets > 0 ? Get("rel_bias") : nullptr;
  const int64_t distance = relative != nullptr ? m_.rel_max_distance : 0;
  const std::vector<Attr> heads = {
      I(m_.heads), I(m_.kv_heads), I(m_.heads / m_.kv_heads),
      I(0),        I(m_.head_dim), F(a.attention_scale)};
  std::vector<Attr> attrs = heads;
  if (is_encoder()) {
    const Mask mask = m_.causal ? Mask::kCausal : Mask::kFull;
    attrs.insert(attrs.end(), {E(mask), I(distance)});
    return Add(OpKind::kEncoderAttention, {q, k, v, in_.slots, relative},
               std::move(attrs), layer + "attn");
  }
  attrs.insert(attrs.end(), {I(a.window), F(m_.attention_softcap), E(m_.alibi),
                             I(distance)});
  State* cache = g_.AddState(prefix_ + layer + "kv", StateKind::kFull,
                             m_.kv_heads, m_.head_dim);
  return Add(OpKind::kAttention,
             {q, k, v, in_.positions, in_.slots, in_.blocks, slopes_, relative},
             std::move(attrs), layer + "attn", cache);
}

Value* StackBuilder::CrossAttended(const std::string& layer,
                                   const LayerAttributes& a, Value* normed) {
  Value* q = Linear(normed, layer + "cross_q", layer + "cross_q");
  Value* k = Linear(in_.source, layer + "cross_k", layer + "cross_k");
  Value* v = Linear(in_.source, layer + "cross_v", layer + "cross_v");
  State* keys = g_.AddState(prefix_ + layer + "cross_kv", StateKind::kCross,
                            m_.kv_heads, m_.head_dim);
  return Add(
      OpKind::kCrossAttention,
      {q, k, v, in_.slots, in_.source_positions, in_.source_slots, in_.sources},
      {I(m_.heads), I(m_.kv_heads), I(m_.heads / m_.kv_heads), I(0),
       I(m_.head_dim), F(a.attention_scale)},
      layer + "cross", keys);
}

Value* StackBuilder::Activated(const std::string& layer, Value* normed) {
  if (!m_.gated) {
    Value* up = Linear(normed, layer + "mlp_up", layer + "up");
    return Activate(up, m_.activation, layer + "act");
  }
  Value* gate = Linear(normed, layer + "mlp_gate", layer + "gate");
  Value* up = Linear(normed, layer + "mlp_up", layer + "up");
  Value* gate_act = Activate(gate, m_.activation, layer + "gate_act");
  return Add(OpKind::kMul, {gate_act, up}, {}, layer + "act");
}

Value* StackBuilder::Activate(Value* x, Act act, const std::string& result) {
  return Add(OpKind::kActivation, {x}, {E(act)}, result);
}

Value* StackBuilder::Layers(Value* x) {
  AddTables();
  for (int64_t i = 0; i < m_.layers; ++i) x = Layer(i, x);
  return x;
}

Value* StackBuilder::FinalNorm(Value* x, const std::string& result) {
  return m_.final_norm ? Norm(x, "final_norm", result) : x;
}

Value* StackBuilder::Layer(int64_t i, Value* x) {
  const std::string layer = absl::StrCat("layers.", i, ".");
  if (is_parallel()) return Parallel(layer, m_.layer[i], x);
  Value* in = BranchInput(layer, "attn", x);
  Value* out = Linear(Attended(layer, m_.layer[i], in), layer + "attn_out",
                      layer + "attn_out");
  x = AddBranch(layer, "attn", x, out, layer + "attn_residual");
  if (in_.source != nullptr) {
    in = BranchInput(layer, "cross", x);
    out = Linear(CrossAttended(layer, m_.layer[i], in), layer + "cross_out",
                 layer + "cross_out");
    x = AddBranch(layer, "cross", x, out, layer + "cross_residual");
  }
  in = BranchInput(layer, "mlp", x);
  out = Linear(Activated(layer, in), layer + "mlp_out", layer + "mlp_out");
  return AddBranch(layer, "mlp", x, out, layer + "out");
}

Value* StackBuilder::BranchInput(const std::string& layer,
                                 const std::string& branch, Value* x) {
  if (!norms_before()) return x;
  return Norm(x, layer + branch + "_norm", layer + branch + "_normed");
}

Value* StackBuilder::AddBranch(const std::string& layer,
                               const std::string& branch, Value* x, Value* out,
                               const std::string& result) {
  if (norms_after()) {
    out = Norm(out, layer + branch + "_post_norm",
               layer + branch + "_post_normed");
  }
  if (m_.residual_scale != 1) {
    out = Scaled(out, m_.residual_scale, layer + branch + "_scaled");
  }
  const bool normed = m_.norm_placement == NormPlacement::kPost;
  Value* sum = Add(OpKind::kAdd, {x, out}, {},
                   normed ? layer + branch + "_sum" : result);
  return normed ? Norm(sum, layer + branch + "_norm", result) : sum;
}

Value* StackBuilder::Parallel(const std::string& layer,
                              const LayerAttributes& a, Value* x) {
  Value* normed = Norm(x, layer + "attn_norm", layer + "attn_normed");
  Value* mlp_in = Has(layer + "mlp_norm")
                      ? Norm(x, layer + "mlp_norm", layer + "mlp_normed")
                      : normed;
  const std::string attn = layer + "attn_out", mlp = layer + "mlp_out";
  Value* left = Product(Attended(layer, a, normed), attn, attn + ".nobias");
  Value* right = Product(Activated(layer, mlp_in), mlp, mlp + ".nobias");
  Value* out = Add(OpKind::kAdd, {left, right}, {}, layer + "branches.nobias");
  out = Biased(out, attn, layer + "branches.attn");
  out = Biased(out, mlp, layer + "branches");
  if (m_.residual_scale != 1) {
    out = Scaled(out, m_.residual_scale, layer + "branches_scaled");
  }
  return Add(OpKind::kAdd, {x, out}, {}, layer + "out");
}

}  // namespace deepslice
