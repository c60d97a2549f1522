// Names to slots by a table, sizes by shapes, attributes by the config's keys.
#include "compiler/auto_policy.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/config_value.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Where in a layer a name is found.
enum class Part { kAny, kAttention, kMlp };

struct KnownName {
  absl::string_view name;  // the last word before .weight or .bias
  absl::string_view slot;
  Part part = Part::kAny;
};
constexpr KnownName kLayerNames[] = {
    {"q_proj", "attn_q"},
    {"query_proj", "attn_q"},
    {"query", "attn_q"},
    {"wq", "attn_q"},
    {"q_lin", "attn_q"},
    {"q", "attn_q", Part::kAttention},
    {"k_proj", "attn_k"},
    {"key_proj", "attn_k"},
    {"key", "attn_k"},
    {"wk", "attn_k"},
    {"k_lin", "attn_k"},
    {"k", "attn_k", Part::kAttention},
    {"v_proj", "attn_v"},
    {"value_proj", "attn_v"},
    {"value", "attn_v"},
    {"wv", "attn_v"},
    {"v_lin", "attn_v"},
    {"v", "attn_v", Part::kAttention},
    {"o_proj", "attn_out"},
    {"out_proj", "attn_out", Part::kAttention},
    {"out_lin", "attn_out"},
    {"wo", "attn_out", Part::kAttention},
    {"o", "attn_out", Part::kAttention},
    {"dense", "attn_out", Part::kAttention},
    {"c_proj", "attn_out", Part::kAttention},
    {"proj", "attn_out", Part::kAttention},
    {"gate_proj", "mlp_gate"},
    {"gate", "mlp_gate", Part::kMlp},
    {"w1", "mlp_gate", Part::kMlp},
    {"up_proj", "mlp_up"},
    {"up", "mlp_up", Part::kMlp},
    {"w3", "mlp_up", Part::kMlp},
    {"fc1", "mlp_up"},
    {"fc_in", "mlp_up"},
    {"c_fc", "mlp_up"},
    {"dense_h_to_4h", "mlp_up"},
    {"lin1", "mlp_up"},
    {"linear1", "mlp_up"},
    {"down_proj", "mlp_out"},
    {"down", "mlp_out", Part::kMlp},
    {"w2", "mlp_out", Part::kMlp},
    {"fc2", "mlp_out"},
    {"fc_out", "mlp_out"},
    {"dense_4h_to_h", "mlp_out"},
    {"lin2", "mlp_out"},
    {"linear2", "mlp_out"},
    {"c_proj", "mlp_out", Part::kMlp},
    {"proj", "mlp_out", Part::kMlp},
    {"q_norm", "attn_q_norm"},
    {"k_norm", "attn_k_norm"},
    {"input_layernorm", "attn_norm"},
    {"input_norm", "attn_norm"},
    {"attention_norm", "attn_norm"},
    {"attn_norm", "attn_norm"},
    {"self_attn_layer_norm", "attn_norm"},
    {"ln_attn", "attn_norm"},
    {"ln_1", "attn_norm"},
    {"ln1", "attn_norm"},
    {"norm1", "attn_norm"},
    {"post_attention_layernorm", "mlp_norm"},
    {"post_attention_norm", "mlp_norm"},
    {"pre_mlp_layernorm", "mlp_norm"},
    {"ffn_norm", "mlp_norm"},
    {"mlp_norm", "mlp_norm"},
    {"final_layer_norm", "mlp_norm"},
    {"ln_mlp", "mlp_norm"},
    {"ln_2", "mlp_norm"},
    {"ln2", "mlp_norm"},
    {"norm2", "mlp_norm"},
};
constexpr KnownName kOtherNames[] = {
    {"embed_tokens", "embed"},
    {"tok_embeddings", "embed"},
    {"word_embeddings", "embed"},
    {"token_embedding", "embed"},
    {"embed_in", "embed"},
    {"wte", "embed"},
    {"wpe", "pos_embed"},
    {"embed_positions", "pos_embed"},
    {"position_embeddings", "pos_embed"},
    {"norm", "final_norm"},
    {"ln_f", "final_norm"},
    {"final_norm", "final_norm"},
    {"final_layernorm", "final_norm"},
    {"final_layer_norm", "final_norm"},
    {"lm_head", "head"},
    {"embed_out", "head"},
    {"output", "head"},
};
// One tensor of several weights: what order its rows have is not in a name.
constexpr absl::string_view kFusedNames[] = {
    "qkv",  "qkv_proj", "query_key_value", "c_attn",
    "wqkv", "W_pack",   "gate_up_proj",    "Wqkv",
    "wkv",  "kv_proj"};

absl::Status Undecided(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat(
      what, "; write a policy for the model (--policy FILE, see MODELS.md)"));
}

// "model.layers.", 3, "mlp.up_proj.weight" of a name with a layer's number.
struct LayerName {
  std::string head, rest;
  int64_t layer = -1;
};
absl::optional<LayerName> SplitLayer(absl::string_view name) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, '.');
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    LayerName out;
    if (!absl::SimpleAtoi(words[i], &out.layer) || out.layer < 0 ||
        out.layer > limits::kLayers || absl::StrCat(out.layer) != words[i]) {
      continue;
    }
    out.head =
        absl::StrCat(absl::StrJoin(words.begin(), words.begin() + i, "."), ".");
    out.rest = absl::StrJoin(words.begin() + i + 1, words.end(), ".");
    return out;
  }
  return absl::nullopt;
}

Part PartOf(absl::string_view rest) {
  const std::string lower = absl::AsciiStrToLower(rest);
  for (absl::string_view word : {"attn", "attention"}) {
    // Not that of a norm: "post_attention_layernorm".
    const size_t dot = lower.rfind('.', lower.rfind('.') - 1);
    if (dot != std::string::npos &&
        absl::StrContains(lower.substr(0, dot), word)) {
      return Part::kAttention;
    }
  }
  for (absl::string_view word : {"mlp", "ffn", "feed_forward", "feedforward"}) {
    if (absl::StrContains(lower, word)) return Part::kMlp;
  }
  return Part::kAny;
}

template <size_t n>
absl::string_view SlotOf(const KnownName (&table)[n], absl::string_view word,
                         Part part) {
  for (const KnownName& k : table) {
    if (k.name == word && (k.part == Part::kAny || k.part == part)) {
      return k.slot;
    }
  }
  return "";
}

// The last word of a name without .weight or .bias, and which it was.
absl::string_view LastWord(absl::string_view name, bool* is_bias) {
  *is_bias = absl::EndsWith(name, ".bias");
  if (!absl::ConsumeSuffix(&name, ".bias")) {
    absl::ConsumeSuffix(&name, ".weight");
  }
  const size_t dot = name.rfind('.');
  return dot == absl::string_view::npos ? name : name.substr(dot + 1);
}

// "mix" of "mix.query.weight", "" of "norm.weight".
absl::string_view ModuleOf(absl::string_view name) {
  for (int i = 0; i < 2; ++i) {
    const size_t dot = name.rfind('.');
    name = dot == absl::string_view::npos ? "" : name.substr(0, dot);
  }
  return name;
}

class Recogniser {
 public:
  Recogniser(const Checkpoint& checkpoint, const Injection& injection)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        injection_(injection) {}

  absl::StatusOr<AutoPolicy> Run() {
    DS_RETURN_IF_ERROR(CheckTask());
    DS_RETURN_IF_ERROR(FindLayers());
    DS_RETURN_IF_ERROR(NameTensors());
    DS_RETURN_IF_ERROR(CheckKeys());
    DS_RETURN_IF_ERROR(Attributes());
    return Finish();
  }

 private:
  // Tensors don't tell what another head would make of them.
  absl::Status CheckTask() const {
    const ConfigValue named = FindConfig(config_, "architectures");
    if (!named.value.is_array()) return absl::OkStatus();
    for (const json::Value& v : named.value.items()) {
      if (!v.is_string()) continue;
      const std::string& name = v.as_string();
      if (absl::EndsWith(name, "ForCausalLM") ||
          absl::EndsWith(name, "LMHeadModel") ||
          absl::EndsWith(name, "Model")) {
        continue;
      }
      return Undecided(absl::StrCat("\"", name,
                                    "\" ends in none of ForCausalLM, "
                                    "LMHeadModel and Model"));
    }
    return absl::OkStatus();
  }

  // ---- names ---------------------------------------------------------------

  // The head that most numbered names share.
  absl::Status FindLayers() {
    std::map<std::string, int64_t> heads;
    for (const TensorInfo& t : checkpoint_.tensors()) {
      if (const auto name = SplitLayer(t.name)) ++heads[name->head];
    }
    for (const auto& [head, count] : heads) {
      if (head_.empty() || count > heads[head_]) head_ = head;
    }
    if (head_.empty())
      return Undecided("no tensor's name has a layer's number");
    for (const TensorInfo& t : checkpoint_.tensors()) {
      const auto name = SplitLayer(t.name);
      if (!name || name->head != head_) {
        others_.push_back(&t);
        continue;
      }
      layers_ = std::max(layers_, name->layer + 1);
      in_layers_[name->rest].push_back(&t);
    }
    return absl::OkStatus();
  }

  // As PartOf; where the words say nothing, what lies beside a query is of
  // attention, and what lies in another module is not.
  Part PartBeside(absl::string_view rest) const {
    const Part part = PartOf(rest);
    const absl::string_view module = ModuleOf(rest);
    if (part != Part::kAny || module.empty()) return part;
    bool beside_query = false, has_query = false;
    for (const auto& [other, tensors] : in_layers_) {
      bool is_bias = false;
      const absl::string_view word = LastWord(other, &is_bias);
      if (SlotOf(kLayerNames, word, Part::kAny) != "attn_q") continue;
      has_query = true;
      beside_query |= ModuleOf(other) == module;
    }
    if (!has_query) return Part::kAny;
    return beside_query ? Part::kAttention : Part::kMlp;
  }

  absl::Status NameTensors() {
    for (const auto& [rest, tensors] : in_layers_) {
      if (static_cast<int64_t>(tensors.size()) != layers_) {
        return Undecided(absl::StrCat("\"", head_, "N.", rest, "\" is in ",
                                      tensors.size(), " of ", layers_,
                                      " layers: they differ"));
      }
      if (absl::EndsWith(rest, "rotary_emb.inv_freq")) {
        unused_.push_back(absl::StrCat(head_, "{i}.", rest));
        continue;
      }
      bool is_bias = false;
      const absl::string_view word = LastWord(rest, &is_bias);
      const Part part = PartBeside(rest);
      std::string slot(SlotOf(kLayerNames, word, part));
      if (injection_.Names(tensors[0]->name)) {
        slot = part == Part::kMlp || slot == "mlp_out" ? "mlp_out" : "attn_out";
      }
      DS_RETURN_IF_ERROR(Take(*tensors[0], absl::StrCat(head_, "{i}.", rest),
                              word, slot, is_bias));
    }
    for (const TensorInfo* t : others_) {
      if (absl::EndsWith(t->name, "rotary_emb.inv_freq")) {
        unused_.push_back(t->name);
        continue;
      }
      bool is_bias = false;
      const absl::string_view word = LastWord(t->name, &is_bias);
      DS_RETURN_IF_ERROR(
          Take(*t, t->name, word,
               std::string(SlotOf(kOtherNames, word, Part::kAny)), is_bias));
    }
    if (!unknown_.empty()) {
      constexpr size_t kShown = 6;
      const bool one = unknown_.size() == 1;
      std::string names = absl::StrJoin(
          unknown_.begin(),
          unknown_.begin() + std::min(kShown, unknown_.size()), "\", \"");
      return Undecided(absl::StrCat(
          one ? "tensor \"" : "tensors \"", names, "\"",
          unknown_.size() > kShown
              ? absl::StrCat(" and ", unknown_.size() - kShown, " more")
              : "",
          one ? " has" : " have", " no name that is known"));
    }
    // w1 alone goes up; with w3 beside it, it gates.
    if (!Has("mlp_up") && Has("mlp_gate")) Rename("mlp_gate", "mlp_up");
    for (absl::string_view needed :
         {"embed", "attn_norm", "attn_q", "attn_k", "attn_v", "attn_out",
          "mlp_up", "mlp_out", "final_norm"}) {
      if (!Has(needed)) {
        return Undecided(absl::StrCat("no tensor was recognised as ", needed));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Take(const TensorInfo& t, std::string pattern,
                    absl::string_view word, std::string slot, bool is_bias) {
    if (std::find(std::begin(kFusedNames), std::end(kFusedNames), word) !=
        std::end(kFusedNames)) {
      return Undecided(absl::StrCat("tensor \"", t.name,
                                    "\" holds several weights in an order "
                                    "that its name does not tell"));
    }
    if (slot.empty()) {
      unknown_.push_back(t.name);
      return absl::OkStatus();
    }
    if (is_bias) slot += ".bias";
    if (!found_.emplace(slot, Found{&t, pattern}).second) {
      return Undecided(absl::StrCat("tensors \"", t.name, "\" and \"",
                                    found_.at(slot).tensor->name,
                                    "\" would both be ", slot));
    }
    return absl::OkStatus();
  }

  bool Has(absl::string_view slot) const {
    return found_.find(std::string(slot)) != found_.end();
  }
  const TensorInfo& Tensor(absl::string_view slot) const {
    return *found_.at(std::string(slot)).tensor;
  }
  void Rename(const std::string& from, const std::string& to) {
    for (const char* end : {"", ".bias"}) {
      const auto it = found_.find(from + end);
      if (it == found_.end()) continue;
      found_[to + end] = it->second;
      found_.erase(it);
    }
  }

  // ---- attributes ----------------------------------------------------------

  // The first of the keys that is there.
  ConfigValue First(std::initializer_list<absl::string_view> keys) const {
    for (absl::string_view key : keys) {
      ConfigValue v = FindConfig(config_, key);
      if (v.present()) return v;
    }
    return ConfigValue();
  }

  // Keys that change the maths of some family: nothing here would obey them.
  absl::Status CheckKeys() const {
    for (const auto& [key, value] : config_.members()) {
      const bool scales = absl::StrContains(key, "multiplier") ||
                          absl::StrContains(key, "softcap") ||
                          absl::StrContains(key, "logit_scale") ||
                          absl::StrContains(key, "logits_scaling") ||
                          absl::StrContains(key, "clip_qkv");
      const bool sliding = key == "sliding_window" ||
                           key == "attention_types" || key == "window_size";
      const bool moe = absl::StrContains(key, "expert");
      const bool off = value.is_null() ||
                       (value.is_bool() && !value.as_bool()) ||
                       (value.is_int() && value.as_int() == (scales ? 1 : 0));
      if (off || !(scales || sliding || moe)) continue;
      if (sliding && OffByFlag("use_sliding_window")) continue;
      return Undecided(absl::StrCat("config.json: ", key, ": found ",
                                    FoundText(value),
                                    ": it changes what the model computes"));
    }
    return absl::OkStatus();
  }
  bool OffByFlag(absl::string_view key) const {
    const ConfigValue v = FindConfig(config_, key);
    return v.value.is_bool() && !v.value.as_bool();
  }

  void Set(absl::string_view name, json::Value value) {
    attributes_.Set(name, std::move(value));
  }

  absl::Status Attributes() {
    const int64_t hidden = Tensor("embed").row_elements();
    const ConfigValue heads =
        First({"num_attention_heads", "n_head", "n_heads", "num_heads"});
    DS_ASSIGN_OR_RETURN(const int64_t num_heads,
                        ConfigInt(heads, 1, limits::kHeads));
    const int64_t q_rows = Tensor("attn_q").rows();
    if (q_rows % num_heads != 0) {
      return Undecided(absl::StrCat("\"", Tensor("attn_q").name, "\" has ",
                                    q_rows, " rows for ", num_heads, " heads"));
    }
    const int64_t head_dim = q_rows / num_heads;
    const int64_t kv_rows = Tensor("attn_k").rows();
    if (head_dim == 0 || kv_rows % head_dim != 0) {
      return Undecided(absl::StrCat("\"", Tensor("attn_k").name, "\" has ",
                                    kv_rows, " rows for heads of ", head_dim));
    }
    Set("hidden_size", hidden);
    Set("layers", layers_);
    Set("heads", num_heads);
    Set("kv_heads", kv_rows / head_dim);
    Set("head_dim", head_dim);
    Set("inner_size", Tensor("mlp_up").rows());
    Set("vocab_size", Tensor("embed").rows());
    Set("gated", Has("mlp_gate"));
    Set("norm_placement", "pre");
    Set("residual", Has("mlp_norm") ? "sequential" : "parallel");
    Set("attention_scale", "inverse_sqrt_head_dim");
    DS_RETURN_IF_ERROR(Norms(head_dim));
    DS_RETURN_IF_ERROR(Positions());
    const ConfigValue act = First({"hidden_act", "activation_function",
                                   "hidden_activation", "activation"});
    if (!act.present()) return Undecided("config.json names no activation");
    Set("activation", act.value);
    Set("tied_head", !Has("head"));
    return absl::OkStatus();
  }

  absl::Status Norms(int64_t head_dim) {
    const ConfigValue rms = FindConfig(config_, "rms_norm_eps");
    const ConfigValue layer = First({"layer_norm_eps", "layer_norm_epsilon",
                                     "layernorm_epsilon", "norm_epsilon"});
    const bool biased = Has("attn_norm.bias");
    if (rms.present() == layer.present() || (rms.present() && biased)) {
      return Undecided(
          "config.json: neither rms_norm_eps nor a layer_norm_eps alone tells "
          "the kind of norm");
    }
    Set("norm", rms.present() ? "rms" : "layer");
    Set("norm_eps", rms.present() ? rms.value : layer.value);
    if (!Has("attn_q_norm") && !Has("attn_k_norm")) return absl::OkStatus();
    const bool of_heads = Has("attn_q_norm") && Has("attn_k_norm") &&
                          Tensor("attn_q_norm").num_elements() == head_dim &&
                          Tensor("attn_k_norm").num_elements() == head_dim;
    if (!of_heads || !rms.present()) {
      return Undecided("the norms of queries and keys are of no known kind");
    }
    Set("qk_norm", "head_rms");
    return absl::OkStatus();
  }

  absl::Status Positions() {
    const ConfigValue most = First(
        {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"});
    const ConfigValue rope =
        First({"rope_theta", "rope_parameters", "rope_scaling", "rotary_pct",
               "partial_rotary_factor", "rotary_emb_base"});
    const ConfigValue alibi = First({"alibi", "use_alibi"});
    const bool is_alibi = alibi.value.is_bool() && alibi.value.as_bool();
    const int kinds = Has("pos_embed") + rope.present() + is_alibi;
    if (kinds != 1) {
      return Undecided(
          absl::StrCat("config.json and the tensors show ", kinds,
                       " kinds of positions (a table, rope_theta, alibi)"));
    }
    Set("positions", Has("pos_embed") ? "learned"
                     : is_alibi       ? "alibi"
                                      : "rope");
    if (rope.present()) {
      Set("rope_style", "half");
      Set("rope_theta", 10000);
    }
    if (Has("pos_embed")) {
      Set("max_positions", Tensor("pos_embed").rows());
    } else if (most.present()) {
      Set("max_positions", most.value);
    } else {
      return Undecided("config.json tells no largest position");
    }
    return absl::OkStatus();
  }

  // ---- the policy ----------------------------------------------------------

  struct Found {
    const TensorInfo* tensor;
    std::string pattern;
  };

  AutoPolicy Finish() const {
    json::Value root = json::Value::Object();
    root.Set("policy", "automatic");
    json::Value architectures = json::Value::Array();
    const ConfigValue named = FindConfig(config_, "architectures");
    if (named.value.is_array()) {
      for (const json::Value& v : named.value.items()) architectures.Add(v);
    }
    if (architectures.items().empty()) architectures.Add("unnamed");
    root.Set("architectures", std::move(architectures));
    root.Set("model_types", json::Value::Array());
    root.Set("prefixes", json::Value::Array());
    root.Set("attributes", attributes_);
    json::Value weights = json::Value::Array();
    // The embedding before the head, which may be the same.
    Add("embed", &weights);
    for (const auto& [slot, found] : found_) {
      if (slot != "embed") Add(slot, &weights);
    }
    // A head of its own must be named even when it is the embedding.
    if (!Has("head")) {
      json::Value& row = weights.Add(json::Value::Object());
      row.Set("name", "lm_head.weight");
      row.Set("weight", "head");
    }
    root.Set("weights", std::move(weights));
    json::Value unused = json::Value::Array();
    for (const std::string& name : unused_) unused.Add(name);
    root.Set("unused", std::move(unused));

    AutoPolicy out;
    out.text = json::Write(root, 1);
    out.decisions = {
        absl::StrCat("column-parallel: ", List({"attn_q", "attn_k", "attn_v",
                                                "mlp_gate", "mlp_up"})),
        absl::StrCat("row-parallel: ", List({"attn_out", "mlp_out"})),
        absl::StrCat("by the vocabulary: ", List({"embed", "head"})),
        absl::StrCat("whole on every rank: ",
                     List({"pos_embed", "attn_norm", "mlp_norm", "attn_q_norm",
                           "attn_k_norm", "final_norm"})),
        absl::StrCat("taken for granted: norms before each branch",
                     Has("mlp_norm") ? "" : ", both branches side by side",
                     attributes_.Find("positions")->as_string() == "rope"
                         ? ", rotation of halves"
                         : "",
                     ", scores over the root of the head's size")};
    return out;
  }
  void Add(const std::string& slot, json::Value* weights) const {
    json::Value& row = weights->Add(json::Value::Object());
    row.Set("name", found_.at(slot).pattern);
    row.Set("weight", slot);
  }
  std::string List(std::initializer_list<absl::string_view> slots) const {
    std::vector<std::string> names;
    for (absl::string_view slot : slots) {
      if (Has(slot)) names.push_back(found_.at(std::string(slot)).pattern);
    }
    return absl::StrJoin(names, ", ");
  }

  const Checkpoint& checkpoint_;
  const json::Value& config_;
  const Injection& injection_;
  std::string head_;  // "model.layers."
  int64_t layers_ = 0;
  std::map<std::string, std::vector<const TensorInfo*>> in_layers_;
  std::vector<const TensorInfo*> others_;
  std::vector<std::string> unknown_;    // names that tell nothing
  std::map<std::string, Found> found_;  // by slot
  std::vector<std::string> unused_;
  json::Value attributes_ = json::Value::Object();
};

}  // namespace

absl::StatusOr<AutoPolicy> MakeAutoPolicy(const Checkpoint& checkpoint,
                                          const Injection& injection) {
  return Recogniser(checkpoint, injection).Run();
}

}  // namespace deepslice
