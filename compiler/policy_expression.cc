// Evaluation of a policy's closed forms, one function per form.
#include "compiler/policy_expression.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

struct Scope {
  const json::Value& attributes;
  const json::Value& config;
};

absl::StatusOr<ConfigValue> Evaluate(const json::Value& e, const Scope& scope);

absl::StatusOr<ConfigValue> Key(const json::Value& e, const Scope& scope) {
  const std::string& key = e.Find("key")->as_string();
  const json::Value* absent = e.Find("absent");
  if (absent != nullptr && !HasConfig(scope.config, key)) {
    return ConfigValue{*absent, key};
  }
  return FindConfig(scope.config, key);
}

absl::StatusOr<ConfigValue> FirstOf(const json::Value& e, const Scope& scope) {
  std::vector<std::string> places;
  for (const json::Value& item : e.Find("first_of")->items()) {
    DS_ASSIGN_OR_RETURN(ConfigValue v, Evaluate(item, scope));
    if (!v.place.empty()) places.push_back(v.place);
    if (!v.present()) continue;
    // A default is given when no key was: errors about it name those keys.
    if (v.place.empty()) v.place = absl::StrJoin(places, " or ");
    return v;
  }
  return ConfigValue{json::Value(), absl::StrJoin(places, " or ")};
}

// What a value is called under "values": a string by itself, true and false,
// and numbers without a fraction of zero (2.0 is "2").
std::string MapKey(const json::Value& v) {
  if (v.is_string()) return v.as_string();
  std::string text = json::Write(v);
  if (v.is_number() && absl::EndsWith(text, ".0")) text.resize(text.size() - 2);
  return text;
}

absl::StatusOr<ConfigValue> Map(const json::Value& e, const Scope& scope) {
  DS_ASSIGN_OR_RETURN(ConfigValue v, Evaluate(*e.Find("map"), scope));
  if (!v.present()) return v;
  const json::Value& values = *e.Find("values");
  const json::Value* mapped = values.Find(MapKey(v.value));
  if (mapped == nullptr) {
    const char* quote = v.value.is_string() ? "\"" : "";
    return ConfigError(
        v, absl::StrJoin(values.members(), ", ",
                         [&](std::string* out, const json::Value::Member& m) {
                           absl::StrAppend(out, quote, m.first, quote);
                         }));
  }
  return ConfigValue{*mapped, v.place};
}

absl::StatusOr<ConfigValue> When(const json::Value& e, const Scope& scope) {
  const json::Value& condition = *e.Find("when");
  const json::Value& wanted = *condition.Find("equals");
  const ConfigValue v =
      FindConfig(scope.config, condition.Find("key")->as_string());
  bool equal = false;
  if (v.present()) {
    if (v.value.kind() != wanted.kind()) {
      return ConfigError(v, json::KindName(wanted.kind()));
    }
    equal = json::Write(v.value) == json::Write(wanted);
  }
  DS_ASSIGN_OR_RETURN(ConfigValue out,
                      Evaluate(*e.Find(equal ? "then" : "else"), scope));
  if (out.place.empty()) out.place = v.place;
  return out;
}

absl::StatusOr<ConfigValue> Inverse(const ConfigValue& v) {
  if (!v.present()) return v;
  DS_ASSIGN_OR_RETURN(const double x, ConfigPositive(v));
  return ConfigValue{json::Value(1 / x), v.place};
}
absl::StatusOr<ConfigValue> InverseSqrt(const ConfigValue& v) {
  if (!v.present()) return v;
  DS_ASSIGN_OR_RETURN(const double x, ConfigPositive(v));
  return ConfigValue{json::Value(1 / std::sqrt(x)), v.place};
}
absl::StatusOr<ConfigValue> Half(const ConfigValue& v) {
  if (!v.present()) return v;
  if (!v.value.is_int() || v.value.as_int() % 2 != 0) {
    return ConfigError(v, "an even number");
  }
  return ConfigValue{json::Value(v.value.as_int() / 2), v.place};
}

// Forms of one operand.
struct Function {
  absl::string_view name;
  absl::StatusOr<ConfigValue> (*apply)(const ConfigValue&);
};
constexpr Function kFunctions[] = {
    {"half", Half}, {"inverse", Inverse}, {"inverse_sqrt", InverseSqrt}};

const Function* FindFunction(const json::Value& e) {
  for (const Function& f : kFunctions) {
    if (e.Find(f.name) != nullptr) return &f;
  }
  return nullptr;
}

absl::StatusOr<ConfigValue> Equal(const json::Value& e, const Scope& scope) {
  const std::vector<json::Value>& both = e.Find("equal")->items();
  DS_ASSIGN_OR_RETURN(const ConfigValue a, Evaluate(both[0], scope));
  DS_ASSIGN_OR_RETURN(const ConfigValue b, Evaluate(both[1], scope));
  return ConfigValue{json::Value(json::Write(a.value) == json::Write(b.value)),
                     a.place};
}

absl::StatusOr<int64_t> Attribute(absl::string_view name, int64_t hi,
                                  const Scope& scope) {
  const json::Value* e = scope.attributes.Find(name);
  if (e == nullptr) {
    return absl::InternalError(
        absl::StrCat("the policy has no attribute ", name));
  }
  DS_ASSIGN_OR_RETURN(const ConfigValue v, Evaluate(*e, scope));
  return ConfigInt(v, 1, hi);
}

absl::StatusOr<ConfigValue> HiddenSizeOverHeads(const Scope& scope) {
  DS_ASSIGN_OR_RETURN(const int64_t hidden,
                      Attribute("hidden_size", limits::kHiddenSize, scope));
  DS_ASSIGN_OR_RETURN(const int64_t heads,
                      Attribute("heads", limits::kHeads, scope));
  if (hidden % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: found hidden size ", hidden, " and ", heads,
        " attention heads; allowed: a multiple of the heads, or head_dim given "
        "beside them; correct config.json"));
  }
  return ConfigValue{json::Value(hidden / heads), "head_dim"};
}

absl::StatusOr<ConfigValue> FourHiddenSizes(const Scope& scope) {
  DS_ASSIGN_OR_RETURN(const int64_t hidden,
                      Attribute("hidden_size", limits::kHiddenSize, scope));
  return ConfigValue{json::Value(4 * hidden), "four hidden sizes"};
}

// DeepSeek: an explicit null means queries straight from the hidden state.
absl::StatusOr<ConfigValue> NoQueryLatent(const Scope& scope) {
  constexpr absl::string_view kKey = "q_lora_rank";
  const bool none = HasConfig(scope.config, kKey) &&
                    !FindConfig(scope.config, kKey).present();
  return ConfigValue{json::Value(none), std::string(kKey)};
}

absl::StatusOr<ConfigValue> QueryLatentBias(const Scope& scope) {
  DS_ASSIGN_OR_RETURN(const ConfigValue none, NoQueryLatent(scope));
  ConfigValue bias = FindConfig(scope.config, "attention_bias");
  if (!bias.present()) bias.value = json::Value(false);
  DS_ASSIGN_OR_RETURN(const bool biased, ConfigBool(bias));
  return ConfigValue{json::Value(biased && !none.value.as_bool()), bias.place};
}

absl::StatusOr<ConfigValue> SqrtHiddenSize(const Scope& scope) {
  DS_ASSIGN_OR_RETURN(const int64_t hidden,
                      Attribute("hidden_size", limits::kHiddenSize, scope));
  return ConfigValue{json::Value(std::sqrt(static_cast<double>(hidden))),
                     "square root of the hidden size"};
}

struct Derivation {
  absl::string_view name;
  absl::StatusOr<ConfigValue> (*derive)(const Scope&);
};
constexpr Derivation kDerivations[] = {
    {"four_hidden_sizes", FourHiddenSizes},
    {"hidden_size_over_heads", HiddenSizeOverHeads},
    {"no_query_latent", NoQueryLatent},
    {"query_latent_bias", QueryLatentBias},
    {"sqrt_hidden_size", SqrtHiddenSize},
};

absl::StatusOr<ConfigValue> Derive(const json::Value& e, const Scope& scope) {
  for (const Derivation& d : kDerivations) {
    if (d.name == e.Find("derive")->as_string()) return d.derive(scope);
  }
  return absl::InternalError("an unchecked policy");
}

absl::StatusOr<ConfigValue> Evaluate(const json::Value& e, const Scope& scope) {
  if (!e.is_object()) return ConfigValue{e, ""};
  if (e.Find("key") != nullptr) return Key(e, scope);
  if (e.Find("first_of") != nullptr) return FirstOf(e, scope);
  if (e.Find("map") != nullptr) return Map(e, scope);
  if (e.Find("when") != nullptr) return When(e, scope);
  if (e.Find("equal") != nullptr) return Equal(e, scope);
  if (const Function* f = FindFunction(e)) {
    DS_ASSIGN_OR_RETURN(const ConfigValue v, Evaluate(*e.Find(f->name), scope));
    return f->apply(v);
  }
  return Derive(e, scope);
}

bool HasString(const json::Value& e, absl::string_view key) {
  const json::Value* v = e.Find(key);
  return v != nullptr && v->is_string() && !v->as_string().empty();
}

bool IsKnownDerivation(const json::Value& name) {
  for (const Derivation& d : kDerivations) {
    if (name.is_string() && d.name == name.as_string()) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<ConfigValue> EvaluateExpression(const json::Value& expression,
                                               const json::Value& attributes,
                                               const json::Value& config) {
  return Evaluate(expression, Scope{attributes, config});
}

absl::Status CheckExpression(const json::Value& e) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("found ", FoundText(e),
                   "; allowed: a literal, key, first_of, map, when, equal, "
                   "half, inverse, inverse_sqrt or derive"));
  if (e.is_array()) return bad;
  if (!e.is_object()) return absl::OkStatus();
  const size_t members = e.members().size();
  if (const json::Value* name = e.Find("derive")) {
    return members == 1 && IsKnownDerivation(*name) ? absl::OkStatus() : bad;
  }
  if (e.Find("key") != nullptr) {
    const bool good =
        HasString(e, "key") && members == (e.Find("absent") != nullptr ? 2 : 1);
    return good ? absl::OkStatus() : bad;
  }
  if (const json::Value* list = e.Find("first_of")) {
    if (!list->is_array() || list->items().empty() || members != 1) return bad;
    for (const json::Value& item : list->items()) {
      DS_RETURN_IF_ERROR(CheckExpression(item));
    }
    return absl::OkStatus();
  }
  if (const json::Value* inner = e.Find("map")) {
    const json::Value* values = e.Find("values");
    if (values == nullptr || !values->is_object() || members != 2) return bad;
    return CheckExpression(*inner);
  }
  if (const json::Value* both = e.Find("equal")) {
    if (!both->is_array() || both->items().size() != 2 || members != 1) {
      return bad;
    }
    DS_RETURN_IF_ERROR(CheckExpression(both->items()[0]));
    return CheckExpression(both->items()[1]);
  }
  if (const Function* f = FindFunction(e)) {
    return members == 1 ? CheckExpression(*e.Find(f->name)) : bad;
  }
  const json::Value* when = e.Find("when");
  const json::Value* then = e.Find("then");
  const json::Value* otherwise = e.Find("else");
  if (when == nullptr || then == nullptr || otherwise == nullptr ||
      members != 3 || !HasString(*when, "key") ||
      when->Find("equals") == nullptr || when->members().size() != 2) {
    return bad;
  }
  DS_RETURN_IF_ERROR(CheckExpression(*then));
  return CheckExpression(*otherwise);
}

}  // namespace deepslice
