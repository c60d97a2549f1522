// One set of rotary parameters out of every spelling, then one function per
// kind of scaling.
#include "compiler/config_rope.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_value.h"
#include "passes/formula.h"
#include "schema/base/limits.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kFullLayers = "full_attention";
constexpr absl::string_view kSlidingLayers = "sliding_attention";
enum class LayerKind { kFull, kLocal };

bool Equal(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  return json::Write(a) == json::Write(b);
}

// The parameters by name, each with the place that gave it.
class RopeParameters {
 public:
  explicit RopeParameters(const json::Value& config) : config_(config) {}

  // Merges rope_scaling and rope_parameters, a set for all layers.
  absl::Status Read() {
    for (absl::string_view outer : {"rope_parameters", "rope_scaling"}) {
      DS_RETURN_IF_ERROR(ReadSet(outer));
    }
    return absl::OkStatus();
  }
  // The set of one kind of layer: transformers 5 has one for each in
  // rope_parameters, where 4 scales layers without a window only.
  absl::Status ReadOf(LayerKind kind) {
    const ConfigValue sets = FindConfig(config_, "rope_parameters");
    for (const auto& [key, value] : sets.value.members()) {
      if (key == kFullLayers || key == kSlidingLayers || value.is_null()) {
        continue;
      }
      return ConfigUnsupported(
          {value, absl::StrCat("rope_parameters.", key)},
          "\"full_attention\" and \"sliding_attention\", a set for each");
    }
    if (kind == LayerKind::kLocal) {
      return ReadSet(absl::StrCat("rope_parameters.", kSlidingLayers));
    }
    DS_RETURN_IF_ERROR(ReadSet(absl::StrCat("rope_parameters.", kFullLayers)));
    return ReadSet("rope_scaling");
  }

  // The parameter, or else the config's own key of that name; a conflict when
  // both are given and differ.
  absl::StatusOr<ConfigValue> Get(absl::string_view key) const {
    const ConfigValue outer = FindConfig(config_, key);
    for (const auto& [name, value] : found_) {
      if (name != key) continue;
      if (outer.present()) DS_RETURN_IF_ERROR(Agree(value, outer));
      return value;
    }
    return outer;
  }
  // The parameter alone; of a place that says where it is missed when absent.
  ConfigValue Inner(absl::string_view key) const {
    for (const auto& [name, value] : found_) {
      if (name == key) return value;
    }
    return {json::Value(), absl::StrCat(set_, ".", key)};
  }

  // "default", "linear", ...: `type` and `rope_type` are one thing.
  absl::StatusOr<ConfigValue> Type() const {
    ConfigValue type;
    for (absl::string_view key : {"rope_type", "type"}) {
      const ConfigValue v = Inner(key);
      if (!v.present()) continue;
      DS_RETURN_IF_ERROR(ConfigString(v).status());
      if (type.present()) DS_RETURN_IF_ERROR(Agree(type, v));
      type = v;
    }
    if (!type.present()) type.value = "default";
    // The first Phi-3 files say yarn, or su, and mean longrope: nothing else
    // has factors for every frequency.
    if (type.value.is_string() && Inner("short_factor").present() &&
        (type.value.as_string() == "su" || type.value.as_string() == "yarn")) {
      type.value = "longrope";
    }
    return type;
  }

 private:
  static absl::Status Agree(const ConfigValue& a, const ConfigValue& b) {
    if (Equal(a.value, b.value)) return absl::OkStatus();
    return ConfigError(
        a, absl::StrCat("the same as ", b.place, ", ", FoundText(b.value)),
        "keep one of the two");
  }
  absl::Status Put(const std::string& key, ConfigValue v) {
    for (const auto& [name, value] : found_) {
      if (name == key) return Agree(value, v);
    }
    found_.emplace_back(key, std::move(v));
    return absl::OkStatus();
  }

  absl::Status ReadSet(absl::string_view outer) {
    const ConfigValue object = FindConfig(config_, outer);
    if (!object.present()) return absl::OkStatus();
    if (!object.value.is_object()) {
      return ConfigError(object, "an object or null");
    }
    set_ = std::string(outer);
    for (const auto& [key, value] : object.value.members()) {
      const std::string place = absl::StrCat(outer, ".", key);
      if (value.is_null()) continue;
      if (value.is_object()) {
        return ConfigUnsupported({value, place},
                                 "one set of parameters for all layers");
      }
      DS_RETURN_IF_ERROR(Put(key, {value, place}));
    }
    return absl::OkStatus();
  }

  const json::Value& config_;
  std::string set_ = "rope_scaling";  // where a missing one is missed
  std::vector<std::pair<std::string, ConfigValue>> found_;
};

absl::StatusOr<double> Factor(const ConfigValue& v) {
  if (!v.value.is_number() || !std::isfinite(v.value.as_double()) ||
      v.value.as_double() < 1) {
    return ConfigError(v, "a number of at least 1");
  }
  return v.value.as_double();
}

absl::StatusOr<double> PositiveOr(const ConfigValue& v, double otherwise) {
  if (!v.present()) return otherwise;
  return ConfigPositive(v);
}

// The positions that the model has, and those that a family had before scaling
// when the config doesn't say; 0: as many as it has.
struct Lengths {
  int64_t max = 0;
  int64_t default_original = 0;
};

absl::StatusOr<double> OriginalPositions(const RopeParameters& parameters,
                                         const Lengths& lengths) {
  DS_ASSIGN_OR_RETURN(const ConfigValue v,
                      parameters.Get("original_max_position_embeddings"));
  if (!v.present()) {
    return static_cast<double>(
        lengths.default_original > 0 ? lengths.default_original : lengths.max);
  }
  DS_ASSIGN_OR_RETURN(const int64_t n, ConfigInt(v, 1, limits::kPositions));
  return static_cast<double>(n);
}

absl::Status Linear(const RopeParameters& parameters, const Lengths&,
                    RopeAttributes* out) {
  DS_ASSIGN_OR_RETURN(const double factor, Factor(parameters.Inner("factor")));
  out->formula = "rope_freqs_linear";
  out->arguments.emplace_back("factor", factor);
  return absl::OkStatus();
}

absl::Status Llama3(const RopeParameters& parameters, const Lengths& lengths,
                    RopeAttributes* out) {
  const ConfigValue high_value = parameters.Inner("high_freq_factor");
  DS_ASSIGN_OR_RETURN(const double factor, Factor(parameters.Inner("factor")));
  DS_ASSIGN_OR_RETURN(const double low,
                      ConfigPositive(parameters.Inner("low_freq_factor")));
  DS_ASSIGN_OR_RETURN(const double high, ConfigPositive(high_value));
  DS_ASSIGN_OR_RETURN(const double original,
                      OriginalPositions(parameters, lengths));
  if (high <= low) {
    return ConfigError(high_value,
                       absl::StrCat("above low_freq_factor, ", low));
  }
  out->formula = "rope_freqs_llama3";
  out->arguments.insert(out->arguments.end(),
                        {{"factor", factor},
                         {"low_freq_factor", low},
                         {"high_freq_factor", high},
                         {"original_positions", original}});
  return absl::OkStatus();
}

// What yarn multiplies cos and sin by when attention_factor is not given.
double YarnAttentionFactor(double factor, double mscale, double mscale_all) {
  const auto of = [factor](double m) {
    return factor <= 1 ? 1.0 : 0.1 * m * PlainLog(factor) + 1.0;
  };
  return mscale != 0 && mscale_all != 0 ? of(mscale) / of(mscale_all) : of(1);
}

absl::Status Yarn(const RopeParameters& parameters, const Lengths& lengths,
                  RopeAttributes* out) {
  DS_ASSIGN_OR_RETURN(const double original,
                      OriginalPositions(parameters, lengths));
  ConfigValue factor_value = parameters.Inner("factor");
  if (!factor_value.present()) {
    factor_value.value = json::Value(lengths.max / original);
  }
  DS_ASSIGN_OR_RETURN(const double factor, Factor(factor_value));
  const ConfigValue fast_value = parameters.Inner("beta_fast");
  DS_ASSIGN_OR_RETURN(const double fast, PositiveOr(fast_value, 32));
  DS_ASSIGN_OR_RETURN(const double slow,
                      PositiveOr(parameters.Inner("beta_slow"), 1));
  if (fast < slow) {
    return ConfigError(fast_value, absl::StrCat("at least beta_slow, ", slow));
  }
  const ConfigValue truncate_value = parameters.Inner("truncate");
  bool truncate = true;
  if (truncate_value.present()) {
    DS_ASSIGN_OR_RETURN(truncate, ConfigBool(truncate_value));
  }
  const ConfigValue attention = parameters.Inner("attention_factor");
  double mscale[2] = {0, 0};
  constexpr absl::string_view kScales[] = {"mscale", "mscale_all_dim"};
  for (int i = 0; i < 2; ++i) {
    const ConfigValue v = parameters.Inner(kScales[i]);
    if (!v.present()) continue;
    DS_ASSIGN_OR_RETURN(mscale[i], ConfigNumber(v));
    if (mscale[i] < 0) return ConfigError(v, "a number of at least 0");
  }
  DS_ASSIGN_OR_RETURN(
      out->scale,
      PositiveOr(attention, YarnAttentionFactor(factor, mscale[0], mscale[1])));
  if (mscale[1] != 0 && factor > 1) {
    const double all = 0.1 * mscale[1] * PlainLog(factor) + 1.0;
    out->score_scale = all * all;
  }
  out->formula = "rope_freqs_yarn";
  out->arguments.insert(out->arguments.end(), {{"factor", factor},
                                               {"beta_fast", fast},
                                               {"beta_slow", slow},
                                               {"original_positions", original},
                                               {"truncate", truncate ? 1 : 0}});
  return absl::OkStatus();
}

// One divisor for each of `pairs` frequencies.
absl::StatusOr<std::vector<double>> FactorList(const ConfigValue& v,
                                               int64_t pairs) {
  const std::string allowed =
      absl::StrCat("a list of ", pairs,
                   " numbers above 0, one for each pair of the rotated part");
  if (!v.value.is_array() ||
      static_cast<int64_t>(v.value.items().size()) != pairs) {
    return ConfigError(v, allowed);
  }
  std::vector<double> out;
  for (const json::Value& item : v.value.items()) {
    DS_ASSIGN_OR_RETURN(
        const double factor,
        ConfigPositive({item, absl::StrCat(v.place, "[", out.size(), "]")}));
    out.push_back(factor);
  }
  return out;
}

absl::Status LongRope(const RopeParameters& parameters, const Lengths& lengths,
                      RopeAttributes* out) {
  DS_ASSIGN_OR_RETURN(const double original,
                      OriginalPositions(parameters, lengths));
  ConfigValue factor_value = parameters.Inner("factor");
  double factor = lengths.max / original;
  if (factor_value.present()) {
    DS_ASSIGN_OR_RETURN(factor, ConfigPositive(factor_value));
  }
  const double stretch =
      factor <= 1 || original <= 1
          ? 1
          : std::sqrt(1 + PlainLog(factor) / PlainLog(original));
  DS_ASSIGN_OR_RETURN(
      out->scale, PositiveOr(parameters.Inner("attention_factor"), stretch));
  out->formula = "rope_freqs_factors";
  out->long_arguments = out->arguments;
  out->long_from = static_cast<int64_t>(original);
  for (const auto& [key, arguments] :
       {std::make_pair("short_factor", &out->arguments),
        std::make_pair("long_factor", &out->long_arguments)}) {
    DS_ASSIGN_OR_RETURN(const std::vector<double> factors,
                        FactorList(parameters.Inner(key), out->rotary_dim / 2));
    for (size_t i = 0; i < factors.size(); ++i) {
      arguments->emplace_back(absl::StrCat("factor_", i), factors[i]);
    }
  }
  if (out->long_arguments == out->arguments) {
    out->long_arguments.clear();
    out->long_from = 0;
  }
  return absl::OkStatus();
}

absl::Status Default(const RopeParameters&, const Lengths&,
                     RopeAttributes* out) {
  out->formula = "rope_freqs";
  return absl::OkStatus();
}

// NTK-aware: the base grows with a sequence of more than max_positions.
absl::Status Dynamic(const RopeParameters& parameters, const Lengths& lengths,
                     RopeAttributes* out) {
  DS_ASSIGN_OR_RETURN(const double factor, Factor(parameters.Inner("factor")));
  // A factor of 1 stretches too, and one pair has nothing to stretch.
  if (out->rotary_dim > 2) {
    out->ntk_factor = factor;
    out->long_from = lengths.max;
  }
  return Default(parameters, lengths, out);
}

struct Kind {
  absl::string_view name;
  absl::Status (*describe)(const RopeParameters&, const Lengths&,
                           RopeAttributes*);
};
constexpr Kind kKinds[] = {
    {"default", Default}, {"dynamic", Dynamic},   {"linear", Linear},
    {"llama3", Llama3},   {"longrope", LongRope}, {"su", LongRope},
    {"yarn", Yarn},
};
// Published kinds that are not supported.
constexpr absl::string_view kUnsupportedKinds[] = {"mrope", "proportional",
                                                   "axial"};

absl::StatusOr<const Kind*> FindKind(const ConfigValue& type) {
  std::vector<absl::string_view> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == type.value.as_string()) return &kind;
    names.push_back(kind.name);
  }
  const std::string allowed = absl::StrJoin(names, ", ");
  for (absl::string_view name : kUnsupportedKinds) {
    if (name == type.value.as_string()) return ConfigUnsupported(type, allowed);
  }
  const std::string nearest = NearestName(type.value.as_string(), names);
  return ConfigError(
      type, allowed,
      nearest.empty() ? "" : absl::StrCat("the nearest is ", nearest));
}

absl::StatusOr<RopeAttributes> DescribeSet(const RopeParameters& parameters,
                                           LayerKind layers,
                                           const RopeDefaults& defaults,
                                           int64_t head_dim,
                                           int64_t max_positions) {
  DS_ASSIGN_OR_RETURN(const ConfigValue type, parameters.Type());
  DS_ASSIGN_OR_RETURN(const Kind* kind, FindKind(type));

  // The config's own rope_theta is that of layers without a window.
  ConfigValue theta_value = parameters.Inner("rope_theta");
  double theta = defaults.local_theta;
  if (layers == LayerKind::kFull) {
    DS_ASSIGN_OR_RETURN(theta_value, parameters.Get("rope_theta"));
    theta = defaults.theta;
  }
  DS_ASSIGN_OR_RETURN(theta, PositiveOr(theta_value, theta));
  DS_ASSIGN_OR_RETURN(ConfigValue part,
                      parameters.Get("partial_rotary_factor"));
  if (!part.present() && defaults.rotary_factor != 1) {
    part = {json::Value(defaults.rotary_factor), defaults.factor_place};
  }
  RopeAttributes out;
  out.rotary_dim = defaults.rotary_dim;
  if (out.rotary_dim == 0) {
    DS_ASSIGN_OR_RETURN(const double factor,
                        PositiveOr(part, defaults.rotary_factor));
    if (factor > 1) return ConfigError(part, "above 0 and at most 1");
    out.rotary_dim = static_cast<int64_t>(head_dim * factor);
  }
  if (out.rotary_dim < 2 || out.rotary_dim % 2 != 0 ||
      out.rotary_dim > head_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: ",
        defaults.rotary_dim != 0 ? "rotary_dim"
        : part.present()         ? part.place
                                 : "head_dim",
        ": found ", out.rotary_dim, " rotary elements of a head of ", head_dim,
        "; allowed: an even number up to the head's, as they turn in pairs; "
        "correct config.json"));
  }
  out.arguments = {{"base", theta},
                   {"rotary_dim", static_cast<double>(out.rotary_dim)}};
  DS_RETURN_IF_ERROR(kind->describe(
      parameters, {max_positions, defaults.original_positions}, &out));
  return out;
}

}  // namespace

absl::StatusOr<RopeSets> DescribeRope(const json::Value& config,
                                      const RopeDefaults& defaults,
                                      int64_t head_dim, int64_t max_positions) {
  RopeSets out;
  RopeParameters all(config);
  if (defaults.local_theta == 0) {
    DS_RETURN_IF_ERROR(all.Read());
  } else {
    DS_RETURN_IF_ERROR(all.ReadOf(LayerKind::kFull));
    RopeParameters local(config);
    DS_RETURN_IF_ERROR(local.ReadOf(LayerKind::kLocal));
    DS_ASSIGN_OR_RETURN(
        out.local, DescribeSet(local, LayerKind::kLocal, defaults, head_dim,
                               max_positions));
    if (out.local->long_from > 0) {
      DS_ASSIGN_OR_RETURN(const ConfigValue type, local.Type());
      return ConfigUnsupported(
          type, "default, linear, llama3, yarn for layers with a window");
    }
  }
  DS_ASSIGN_OR_RETURN(out.all, DescribeSet(all, LayerKind::kFull, defaults,
                                           head_dim, max_positions));
  return out;
}

}  // namespace deepslice
