// Evaluates each attribute by name and checks it against its range.
#include "compiler/model_attributes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_rope.h"
#include "compiler/config_support.h"
#include "compiler/config_window.h"
#include "compiler/policy_expression.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

// The attributes of one policy over one config.
class Attributes {
 public:
  Attributes(const Policy& policy, const json::Value& config)
      : policy_(policy), config_(config) {}

  // Null when the policy has no such attribute.
  absl::StatusOr<ConfigValue> Get(absl::string_view name) const {
    const json::Value* expression = policy_.attributes.Find(name);
    if (expression == nullptr) return ConfigValue();
    return EvaluateExpression(*expression, policy_.attributes, config_);
  }
  absl::StatusOr<int64_t> Int(absl::string_view name, int64_t lo,
                              int64_t hi) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    return ConfigInt(v, lo, hi);
  }
  // `otherwise` when the attribute is absent or null.
  absl::StatusOr<int64_t> IntOr(absl::string_view name, int64_t otherwise,
                                int64_t lo, int64_t hi) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    if (!v.present()) return otherwise;
    return ConfigInt(v, lo, hi);
  }
  absl::StatusOr<bool> BoolOr(absl::string_view name, bool otherwise) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    if (!v.present()) return otherwise;
    return ConfigBool(v);
  }
  absl::StatusOr<double> NumberOr(absl::string_view name,
                                  double otherwise) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    if (!v.present()) return otherwise;
    return ConfigNumber(v);
  }
  absl::StatusOr<double> NotNegativeOr(absl::string_view name,
                                       double otherwise) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    if (!v.present()) return otherwise;
    DS_ASSIGN_OR_RETURN(const double number, ConfigNumber(v));
    if (number < 0) return ConfigError(v, "a number of at least 0");
    return number;
  }
  // As OneOf; the first when the attribute is absent or null.
  absl::StatusOr<int> OneOfOr(
      absl::string_view name,
      absl::Span<const absl::string_view> values) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    if (!v.present()) return 0;
    return OneOf(name, values);
  }
  // The index of the attribute's text in `values`.
  absl::StatusOr<int> OneOf(absl::string_view name,
                            absl::Span<const absl::string_view> values) const {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Get(name));
    int index = 0;
    std::string allowed;
    for (absl::string_view value : values) {
      if (v.value.is_string() && v.value.as_string() == value) return index;
      absl::StrAppend(&allowed, index++ == 0 ? "" : ", ", value);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("policies/", policy_.name, ".json: attributes.", name,
                     ": found ", FoundText(v.value), "; allowed: ", allowed));
  }

 private:
  const Policy& policy_;
  const json::Value& config_;
};

// `v`, the value of `expression`, must be a boolean; null when the policy says
// nothing.
absl::StatusOr<ConfigFlag> FlagOf(const json::Value* expression,
                                  const ConfigValue& v,
                                  const json::Value& config) {
  ConfigFlag flag;
  for (const char* form : {"when", "map", "equal"}) {
    flag.derived |= expression != nullptr && expression->Find(form) != nullptr;
  }
  if (v.present()) {
    DS_ASSIGN_OR_RETURN(flag.value, ConfigBool(v));
  }
  const ConfigValue given = FindConfig(config, v.place);
  const char* value = flag.value ? "true" : "false";
  if (!given.present()) {
    flag.text = flag.derived
                    ? absl::StrCat(v.place, ": absent")
                    : absl::StrCat(v.place, ": absent, which means ", value);
  } else if (given.value.is_bool() && given.value.as_bool() == flag.value) {
    flag.text = absl::StrCat(v.place, ": found ", value);
  } else {
    flag.text = absl::StrCat(v.place, ": found ", FoundText(given.value));
  }
  return flag;
}

absl::Status DescribeSizes(const Attributes& a, ModelDescription* m) {
  DS_ASSIGN_OR_RETURN(m->hidden_size,
                      a.Int("hidden_size", 1, limits::kHiddenSize));
  DS_ASSIGN_OR_RETURN(m->layers, a.Int("layers", 1, limits::kLayers));
  DS_ASSIGN_OR_RETURN(const int64_t dense,
                      a.IntOr("dense_layers", m->layers, 0, limits::kLayers));
  if (dense < m->layers) {
    DS_ASSIGN_OR_RETURN(const ConfigValue found, a.Get("dense_layers"));
    return absl::UnimplementedError(absl::StrCat(
        "config.json: ", found.place, ": found ", dense, " of ", m->layers,
        " layers; allowed: all, as the others are mixtures of experts, which "
        "this version does not compile"));
  }
  DS_ASSIGN_OR_RETURN(m->heads, a.Int("heads", 1, limits::kHeads));
  DS_ASSIGN_OR_RETURN(m->kv_heads, a.Int("kv_heads", 1, limits::kHeads));
  DS_ASSIGN_OR_RETURN(m->head_dim, a.Int("head_dim", 1, limits::kHiddenSize));
  DS_ASSIGN_OR_RETURN(m->inner_size,
                      a.Int("inner_size", 1, 16 * limits::kHiddenSize));
  DS_ASSIGN_OR_RETURN(m->max_positions,
                      a.Int("max_positions", 1, limits::kPositions));
  DS_ASSIGN_OR_RETURN(const ConfigValue vocab, a.Get("vocab_size"));
  const bool given =
      vocab.present() && !(vocab.value.is_int() && vocab.value.as_int() == -1);
  if (given) {
    DS_ASSIGN_OR_RETURN(m->vocab_size, ConfigInt(vocab, 1, limits::kVocab));
  }
  DS_ASSIGN_OR_RETURN(const ConfigValue kv, a.Get("kv_heads"));
  if (m->heads % m->kv_heads != 0) {
    return ConfigError(
        kv, absl::StrCat("a divisor of the ", m->heads, " attention heads"));
  }
  if (m->heads * m->head_dim > 16 * limits::kHiddenSize) {
    DS_ASSIGN_OR_RETURN(const ConfigValue dim, a.Get("head_dim"));
    return ConfigError(dim, absl::StrCat(m->heads, " heads of it make at most ",
                                         16 * limits::kHiddenSize));
  }
  return absl::OkStatus();
}

absl::Status DescribeBlock(const Attributes& a, ModelDescription* m,
                           ModelFlags* flags) {
  DS_ASSIGN_OR_RETURN(const int norm, a.OneOf("norm", {"rms", "layer"}));
  m->norm = norm == 0 ? NormKind::kRms : NormKind::kLayer;
  DS_ASSIGN_OR_RETURN(
      const int placement,
      a.OneOf("norm_placement", {"pre", "post", "sandwich", "branch"}));
  m->norm_placement = static_cast<NormPlacement>(placement);
  DS_ASSIGN_OR_RETURN(const ConfigValue eps, a.Get("norm_eps"));
  DS_ASSIGN_OR_RETURN(m->norm_eps, ConfigNumber(eps));
  if (m->norm_eps < 0) return ConfigError(eps, "a number of at least 0");
  DS_ASSIGN_OR_RETURN(const ConfigValue act, a.Get("activation"));
  DS_ASSIGN_OR_RETURN(const std::string act_name, ConfigString(act));
  DS_ASSIGN_OR_RETURN(m->activation, ActivationOf(act_name, act.place));
  DS_ASSIGN_OR_RETURN(m->gated, a.BoolOr("gated", false));
  DS_ASSIGN_OR_RETURN(
      const int positions,
      a.OneOf("positions", {"rope", "learned", "alibi", "none"}));
  m->positions = static_cast<PositionKind>(positions);
  DS_ASSIGN_OR_RETURN(flags->position_offset,
                      a.IntOr("position_offset", 0, 0, limits::kPositions));
  return absl::OkStatus();
}

absl::Status DescribeLatent(const Attributes& a, ModelDescription* m) {
  DS_ASSIGN_OR_RETURN(const int kind,
                      a.OneOfOr("attention", {"heads", "latent"}));
  if (kind == 0) return absl::OkStatus();
  LatentSizes s;
  const int64_t most = limits::kHiddenSize;
  DS_ASSIGN_OR_RETURN(s.query_rank, a.IntOr("latent_query_rank", 0, 1, most));
  DS_ASSIGN_OR_RETURN(s.rank, a.Int("latent_rank", 1, most));
  DS_ASSIGN_OR_RETURN(s.nope_dim, a.Int("latent_nope_dim", 1, most));
  DS_ASSIGN_OR_RETURN(s.value_dim, a.Int("latent_value_dim", 1, most));
  s.rope_dim = m->head_dim;
  for (absl::string_view name : {"latent_nope_dim", "latent_value_dim"}) {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, a.Get(name));
    if (m->heads * v.value.as_int() <= 16 * most) continue;
    return ConfigError(
        v, absl::StrCat(m->heads, " heads of it make at most ", 16 * most));
  }
  if (s.rank + s.rope_dim > most) {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, a.Get("latent_rank"));
    return ConfigError(v, absl::StrCat("with a rotated key of ", s.rope_dim,
                                       " at most ", most));
  }
  DS_ASSIGN_OR_RETURN(s.norm_eps, a.NotNegativeOr("latent_norm_eps", 1e-6));
  m->latent = s;
  return absl::OkStatus();
}

// What most families leave at its default.
absl::Status DescribeExtras(const Attributes& a, ModelDescription* m) {
  DS_ASSIGN_OR_RETURN(const int residual,
                      a.OneOfOr("residual", {"sequential", "parallel"}));
  m->residual = static_cast<ResidualKind>(residual);
  DS_ASSIGN_OR_RETURN(const int qk_norm,
                      a.OneOfOr("qk_norm", {"none", "head_rms", "head_layer",
                                            "head_layer_shared", "rms"}));
  m->qk_norm = static_cast<QkNorm>(qk_norm);
  DS_ASSIGN_OR_RETURN(const int alibi,
                      a.OneOfOr("alibi", {"plain", "scaled_bf16"}));
  m->alibi = static_cast<Alibi>(alibi);
  DS_ASSIGN_OR_RETURN(m->final_norm, a.BoolOr("final_norm", true));
  DS_ASSIGN_OR_RETURN(m->norm_affine, a.BoolOr("norm_affine", true));
  DS_ASSIGN_OR_RETURN(m->embed_norm, a.BoolOr("embed_norm", false));
  DS_ASSIGN_OR_RETURN(m->norm_offset, a.NumberOr("norm_offset", 0));
  DS_ASSIGN_OR_RETURN(m->embed_scale, a.NumberOr("embed_scale", 1));
  DS_ASSIGN_OR_RETURN(m->residual_scale, a.NumberOr("residual_scale", 1));
  DS_ASSIGN_OR_RETURN(m->logit_scale, a.NumberOr("logit_scale", 1));
  DS_ASSIGN_OR_RETURN(const bool scaled_head, a.BoolOr("scaled_head", false));
  if (scaled_head) {
    m->logit_scale /= std::sqrt(static_cast<double>(m->hidden_size));
  }
  DS_ASSIGN_OR_RETURN(m->logit_softcap, a.NotNegativeOr("logit_softcap", 0));
  DS_ASSIGN_OR_RETURN(m->attention_softcap,
                      a.NotNegativeOr("attention_softcap", 0));
  DS_ASSIGN_OR_RETURN(m->embed_dim, a.IntOr("embed_dim", m->hidden_size, 1,
                                            limits::kHiddenSize));
  return absl::OkStatus();
}

absl::Status DescribeRopeOf(const Attributes& a, const json::Value& config,
                            ModelDescription* m) {
  DS_ASSIGN_OR_RETURN(const int style,
                      a.OneOf("rope_style", {"half", "interleaved"}));
  RopeDefaults defaults;
  for (auto& [name, number] :
       {std::make_pair("rope_theta", &defaults.theta),
        std::make_pair("rotary_factor", &defaults.rotary_factor),
        std::make_pair("rope_local_theta", &defaults.local_theta)}) {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, a.Get(name));
    if (!v.present()) continue;
    DS_ASSIGN_OR_RETURN(*number, ConfigPositive(v));
    if (number == &defaults.rotary_factor && !v.place.empty()) {
      defaults.factor_place = v.place;
    }
  }
  DS_ASSIGN_OR_RETURN(defaults.rotary_dim,
                      a.IntOr("rotary_dim", 0, 1, m->head_dim));
  DS_ASSIGN_OR_RETURN(
      defaults.original_positions,
      a.IntOr("rope_original_positions", 0, 1, limits::kPositions));
  DS_ASSIGN_OR_RETURN(RopeSets sets, DescribeRope(config, defaults, m->head_dim,
                                                  m->max_positions));
  // Dynamic NTK is meant for sequences of that many times the positions.
  if (sets.all.ntk_factor > 1) {
    m->max_positions = static_cast<int64_t>(std::min(
        std::floor(static_cast<double>(m->max_positions) * sets.all.ntk_factor),
        static_cast<double>(limits::kPositions)));
  }
  m->rope = std::move(sets.all);
  m->local_rope = std::move(sets.local);
  m->rope.style = style == 0 ? RopeStyle::kHalf : RopeStyle::kInterleaved;
  if (m->local_rope.has_value()) m->local_rope->style = m->rope.style;
  return absl::OkStatus();
}

absl::StatusOr<double> AttentionScale(const Attributes& a,
                                      const ModelDescription& m) {
  DS_ASSIGN_OR_RETURN(const ConfigValue v, a.Get("attention_scale"));
  if (!v.value.is_string()) return ConfigNumber(v);
  DS_ASSIGN_OR_RETURN(
      const int scale,
      a.OneOf("attention_scale", {"inverse_sqrt_head_dim", "one"}));
  if (scale == 1) return 1;
  if (!m.latent.has_value()) {
    return 1 / std::sqrt(static_cast<double>(m.head_dim));
  }
  const int64_t query_dim = m.latent->nope_dim + m.latent->rope_dim;
  return m.rope.score_scale / std::sqrt(static_cast<double>(query_dim));
}

absl::Status DescribeLayers(const Attributes& a, const json::Value& config,
                            ModelDescription* m) {
  WindowValues values;
  DS_ASSIGN_OR_RETURN(values.size, a.Get("window_size"));
  DS_ASSIGN_OR_RETURN(values.enabled, a.Get("window_enabled"));
  DS_ASSIGN_OR_RETURN(values.first_layer, a.Get("window_first_layer"));
  DS_ASSIGN_OR_RETURN(values.pattern, a.Get("window_pattern"));
  DS_ASSIGN_OR_RETURN(values.layer_types, a.Get("window_layer_types"));
  DS_ASSIGN_OR_RETURN(values.attention_types, a.Get("window_attention_types"));
  DS_ASSIGN_OR_RETURN(const std::vector<int64_t> windows,
                      DescribeWindows(values, m->layers, config, &m->notes));
  DS_ASSIGN_OR_RETURN(const double scale, AttentionScale(a, *m));
  DS_ASSIGN_OR_RETURN(const bool by_layer,
                      a.BoolOr("attention_scale_by_layer", false));
  for (int64_t i = 0; i < m->layers; ++i) {
    LayerAttributes layer;
    layer.window = windows[i];
    layer.attention_scale = scale;
    if (by_layer) layer.attention_scale /= static_cast<double>(i + 1);
    m->layer.push_back(layer);
  }
  return absl::OkStatus();
}

// Of an image's side; what plans take, too.
constexpr int64_t kMostPixels = 1 << 14;

// What encoders have beside the rest.
absl::Status DescribeEncoder(const Attributes& a, ModelDescription* m,
                             ModelFlags* flags) {
  DS_ASSIGN_OR_RETURN(m->causal, a.BoolOr("causal", true));
  DS_ASSIGN_OR_RETURN(m->types, a.IntOr("types", 0, 1, limits::kPositions));
  for (auto& [name, act] :
       {std::make_pair("pooler_activation", &m->pooler_activation),
        std::make_pair("mlm_activation", &m->mlm_activation)}) {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, a.Get(name));
    if (!v.present()) continue;
    DS_ASSIGN_OR_RETURN(const std::string text, ConfigString(v));
    if (text == "tanh") {
      *act = Act::kTanh;
      continue;
    }
    DS_ASSIGN_OR_RETURN(*act, ActivationOf(text, v.place));
  }
  DS_ASSIGN_OR_RETURN(m->rel_buckets,
                      a.IntOr("relative_buckets", 0, 1, limits::kPositions));
  if (m->rel_buckets > 0) {
    DS_ASSIGN_OR_RETURN(m->rel_max_distance,
                        a.Int("relative_max_distance", 1, limits::kPositions));
    if (!AreRelativeBuckets(m->rel_buckets, m->rel_max_distance, !m->causal)) {
      DS_ASSIGN_OR_RETURN(const ConfigValue most,
                          a.Get("relative_max_distance"));
      return ConfigError(
          most, absl::StrCat("more than the ", m->rel_buckets,
                             " buckets count one by one, at most ",
                             kMostRelativeDistance));
    }
  }
  DS_ASSIGN_OR_RETURN(m->image_size,
                      a.IntOr("image_size", 0, 1, kMostPixels));
  if (m->image_size > 0) {
    DS_ASSIGN_OR_RETURN(m->patch_size, a.Int("patch_size", 1, m->image_size));
    DS_ASSIGN_OR_RETURN(m->channels, a.Int("channels", 3, 3));
    if (m->image_size % m->patch_size != 0) {
      DS_ASSIGN_OR_RETURN(const ConfigValue patch, a.Get("patch_size"));
      return ConfigError(
          patch, absl::StrCat("a divisor of the image's ", m->image_size,
                              " pixels"));
    }
    const int64_t side = m->image_size / m->patch_size;
    m->max_positions = side * side + 1;
  }
  DS_ASSIGN_OR_RETURN(m->projection_size,
                      a.IntOr("projection_size", 0, 1, limits::kHiddenSize));
  DS_ASSIGN_OR_RETURN(const ConfigValue pad, a.Get("positions_after_pad"));
  if (!pad.present()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(m->pad_id, ConfigInt(pad, 0, limits::kVocab));
  flags->position_offset = m->pad_id + 1;
  m->max_positions -= flags->position_offset;
  if (m->max_positions > 0) return absl::OkStatus();
  return ConfigError(pad, "an id below the rows of the position table");
}

// The names of a model's classes: id2label, or LABEL_0 and so on.
absl::Status DescribeLabels(const json::Value& config, ModelDescription* m) {
  const ConfigValue names = FindConfig(config, "id2label");
  ConfigValue count = FindConfig(config, "num_labels");
  int64_t size = 2;
  if (names.present()) {
    if (!names.value.is_object() || names.value.members().empty() ||
        static_cast<int64_t>(names.value.members().size()) > limits::kVocab) {
      return ConfigError(names, "an object with a name for each class");
    }
    size = static_cast<int64_t>(names.value.members().size());
  } else if (count.present()) {
    DS_ASSIGN_OR_RETURN(size, ConfigInt(count, 1, limits::kVocab));
  }
  for (int64_t i = 0; i < size; ++i) {
    std::string label = absl::StrCat("LABEL_", i);
    if (names.present()) {
      const json::Value* name = names.value.Find(absl::StrCat(i));
      if (name == nullptr || !name->is_string()) {
        return ConfigError(names,
                           absl::StrCat("names for the classes \"0\" to \"",
                                        size - 1, "\""));
      }
      label = name->as_string();
    }
    m->labels.push_back(std::move(label));
  }
  const ConfigValue problem = FindConfig(config, "problem_type");
  if (!problem.present()) {
    m->scores = size == 1 ? fb::Scores::Sigmoid : fb::Scores::Softmax;
    return absl::OkStatus();
  }
  DS_ASSIGN_OR_RETURN(const std::string type, ConfigString(problem));
  if (type == "regression") {
    m->scores = fb::Scores::AsTheyAre;
  } else if (type == "multi_label_classification") {
    m->scores = fb::Scores::Sigmoid;
  } else if (type == "single_label_classification") {
    m->scores = fb::Scores::Softmax;
  } else {
    return ConfigError(problem,
                       "regression, single_label_classification, "
                       "multi_label_classification");
  }
  return absl::OkStatus();
}

absl::Status DescribeHead(const Policy& policy, const json::Value& config,
                          ModelDescription* m, ModelFlags* flags) {
  for (const auto& [architecture, head] : policy.heads) {
    if (architecture == m->architecture) flags->head = head;
  }
  const absl::Span<const absl::string_view> names = TaskHeadNames();
  m->head = static_cast<TaskHead>(
      std::find(names.begin(), names.end(), flags->head) - names.begin());
  const bool classifies = m->head == TaskHead::kSequenceClasses ||
                          m->head == TaskHead::kTokenClasses;
  return classifies ? DescribeLabels(config, m) : absl::OkStatus();
}

absl::Status CheckRequired(const Policy& policy, const json::Value& config) {
  for (const RequiredValue& r : policy.require) {
    const ConfigValue v = FindConfig(config, r.key);
    bool equal = !v.present();
    for (const json::Value& value : r.values) {
      equal |= v.value.is_number() && value.is_number()
                   ? v.value.as_double() == value.as_double()
                   : json::Write(v.value) == json::Write(value);
    }
    if (!equal) {
      const std::string allowed = absl::StrJoin(
          r.values, ", ", [](std::string* out, const json::Value& value) {
            absl::StrAppend(out, FoundText(value));
          });
      return ConfigUnsupported(
          v, absl::StrCat(allowed, " in policy ", policy.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DescribeAttributes(const Policy& policy, const json::Value& config,
                                ModelDescription* model, ModelFlags* flags) {
  const Attributes a(policy, config);
  model->family = policy.name;
  const ConfigValue architectures = FindConfig(config, "architectures");
  model->architecture = architectures.value.items().empty()
                            ? policy.architectures[0]
                            : architectures.value.items()[0].as_string();
  DS_RETURN_IF_ERROR(CheckRequired(policy, config));
  DS_RETURN_IF_ERROR(DescribeSizes(a, model));
  DS_RETURN_IF_ERROR(DescribeBlock(a, model, flags));
  DS_RETURN_IF_ERROR(DescribeExtras(a, model));
  DS_RETURN_IF_ERROR(DescribeLatent(a, model));
  DS_RETURN_IF_ERROR(DescribeEncoder(a, model, flags));
  DS_RETURN_IF_ERROR(DescribeHead(policy, config, model, flags));
  if (model->positions == PositionKind::kRope) {
    DS_RETURN_IF_ERROR(DescribeRopeOf(a, config, model));
  }
  DS_RETURN_IF_ERROR(DescribeLayers(a, config, model));
  DS_ASSIGN_OR_RETURN(const int layout,
                      a.OneOfOr("qkv_layout", RowLayoutNames()));
  flags->qkv_layout = static_cast<RowLayout>(layout);
  DS_ASSIGN_OR_RETURN(const ConfigValue tied, a.Get("tied_head"));
  DS_ASSIGN_OR_RETURN(
      flags->tied_head,
      FlagOf(policy.attributes.Find("tied_head"), tied, config));
  model->tied_head = flags->tied_head.value;
  DS_ASSIGN_OR_RETURN(const ConfigValue layers, a.Get("layers"));
  flags->layers_place = layers.place;
  for (const auto& [name, expression] : policy.flags.members()) {
    DS_ASSIGN_OR_RETURN(
        const ConfigValue v,
        EvaluateExpression(expression, policy.attributes, config));
    DS_ASSIGN_OR_RETURN(flags->biases[name], FlagOf(&expression, v, config));
  }
  for (const Policy& tower : policy.towers) {
    ModelDescription& m = model->towers.emplace_back();
    m.tower = tower.tower;
    DS_RETURN_IF_ERROR(DescribeAttributes(tower, config, &m,
                                          &flags->towers.emplace_back()));
    model->notes.insert(model->notes.end(), m.notes.begin(), m.notes.end());
  }
  return absl::OkStatus();
}

}  // namespace deepslice
