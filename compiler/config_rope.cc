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

bool Equal(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  return json::Write(a) == json::Write(b);
}

// The parameters by name, each with the place that gave it.
class RopeParameters {
 public:
  explicit RopeParameters(const json::Value& config) : config_(config) {}

  // Merges rope_scaling and rope_parameters.
  absl::Status Read() {
    for (absl::string_view outer : {"rope_parameters", "rope_scaling"}) {
      const ConfigValue object = FindConfig(config_, outer);
      if (!object.present()) continue;
      if (!object.value.is_object()) {
        return ConfigError(object, "an object or null");
      }
      for (const auto& [key, value] : object.value.members()) {
        const std::string place = absl::StrCat(outer, ".", key);
        if (value.is_null()) continue;
        if (value.is_object()) {
          return ConfigUnsupported({value, place},
                                   "one set of parameters for all layers");
        }
        DS_RETURN_IF_ERROR(Put(key, {value, place}));
      }
    }
    return absl::OkStatus();
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
    return {json::Value(),
            absl::StrCat(FindConfig(config_, "rope_parameters").present()
                             ? "rope_parameters."
                             : "rope_scaling.",
                         key)};
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

  const json::Value& config_;
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

absl::StatusOr<double> OriginalPositions(const RopeParameters& parameters,
                                         int64_t max_positions) {
  DS_ASSIGN_OR_RETURN(const ConfigValue v,
                      parameters.Get("original_max_position_embeddings"));
  if (!v.present()) return static_cast<double>(max_positions);
  DS_ASSIGN_OR_RETURN(const int64_t n, ConfigInt(v, 1, limits::kPositions));
  return static_cast<double>(n);
}

absl::Status Linear(const RopeParameters& parameters, int64_t,
                    RopeAttributes* out) {
  DS_ASSIGN_OR_RETURN(const double factor, Factor(parameters.Inner("factor")));
  out->formula = "rope_freqs_linear";
  out->arguments.emplace_back("factor", factor);
  return absl::OkStatus();
}

absl::Status Llama3(const RopeParameters& parameters, int64_t max_positions,
                    RopeAttributes* out) {
  const ConfigValue high_value = parameters.Inner("high_freq_factor");
  DS_ASSIGN_OR_RETURN(const double factor, Factor(parameters.Inner("factor")));
  DS_ASSIGN_OR_RETURN(const double low,
                      ConfigPositive(parameters.Inner("low_freq_factor")));
  DS_ASSIGN_OR_RETURN(const double high, ConfigPositive(high_value));
  DS_ASSIGN_OR_RETURN(const double original,
                      OriginalPositions(parameters, max_positions));
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

absl::Status Yarn(const RopeParameters& parameters, int64_t max_positions,
                  RopeAttributes* out) {
  DS_ASSIGN_OR_RETURN(const double original,
                      OriginalPositions(parameters, max_positions));
  ConfigValue factor_value = parameters.Inner("factor");
  if (!factor_value.present()) {
    factor_value.value = json::Value(max_positions / original);
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
  out->formula = "rope_freqs_yarn";
  out->arguments.insert(out->arguments.end(), {{"factor", factor},
                                               {"beta_fast", fast},
                                               {"beta_slow", slow},
                                               {"original_positions", original},
                                               {"truncate", truncate ? 1 : 0}});
  return absl::OkStatus();
}

absl::Status Default(const RopeParameters&, int64_t, RopeAttributes* out) {
  out->formula = "rope_freqs";
  return absl::OkStatus();
}

struct Kind {
  absl::string_view name;
  absl::Status (*describe)(const RopeParameters&, int64_t max_positions,
                           RopeAttributes*);
};
constexpr Kind kKinds[] = {
    {"default", Default},
    {"linear", Linear},
    {"llama3", Llama3},
    {"yarn", Yarn},
};
// Published kinds that are not supported: the first three (su is longrope's old
// name) change the table with the length of the sequence.
constexpr absl::string_view kUnsupportedKinds[] = {
    "dynamic", "longrope", "su", "mrope", "proportional", "axial"};

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

}  // namespace

absl::StatusOr<RopeAttributes> DescribeRope(const json::Value& config,
                                            double default_theta,
                                            int64_t head_dim,
                                            int64_t max_positions) {
  RopeParameters parameters(config);
  DS_RETURN_IF_ERROR(parameters.Read());
  DS_ASSIGN_OR_RETURN(const ConfigValue type, parameters.Type());
  DS_ASSIGN_OR_RETURN(const Kind* kind, FindKind(type));

  DS_ASSIGN_OR_RETURN(const ConfigValue theta_value,
                      parameters.Get("rope_theta"));
  DS_ASSIGN_OR_RETURN(const double theta,
                      PositiveOr(theta_value, default_theta));
  DS_ASSIGN_OR_RETURN(const ConfigValue part,
                      parameters.Get("partial_rotary_factor"));
  RopeAttributes out;
  out.rotary_dim = head_dim;
  if (part.present()) {
    DS_ASSIGN_OR_RETURN(const double factor, ConfigPositive(part));
    if (factor > 1) return ConfigError(part, "above 0 and at most 1");
    out.rotary_dim = static_cast<int64_t>(head_dim * factor);
  }
  if (out.rotary_dim < 2 || out.rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: ", part.present() ? part.place : "head_dim", ": found ",
        out.rotary_dim, " rotary elements of a head of ", head_dim,
        "; allowed: an even number, as they turn in pairs; correct "
        "config.json"));
  }
  out.arguments = {{"base", theta},
                   {"rotary_dim", static_cast<double>(out.rotary_dim)}};
  DS_RETURN_IF_ERROR(kind->describe(parameters, max_positions, &out));
  return out;
}

}  // namespace deepslice
