// Which policy a config.json asks for.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/config_value.h"
#include "compiler/policy.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

bool Holds(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> Names(std::vector<std::string> Policy::*member) {
  std::vector<std::string> out;
  for (const Policy& p : AllPolicies()) {
    out.insert(out.end(), (p.*member).begin(), (p.*member).end());
  }
  return out;
}

const Policy* Find(std::vector<std::string> Policy::*member,
                   absl::string_view name) {
  for (const Policy& p : AllPolicies()) {
    if (Holds(p.*member, name)) return &p;
  }
  return nullptr;
}

// "Llama" of "LlamaForCausalLM": what tells families apart.
absl::string_view Stem(absl::string_view name) {
  for (absl::string_view suffix : {"ForCausalLM", "LMHeadModel", "Model"}) {
    if (absl::ConsumeSuffix(&name, suffix)) break;
  }
  return name;
}

// The known name whose stem is nearest, of those the one that ends as `name`
// does, or ""; a model_type is its own stem.
std::string NearestByStem(const std::string& name,
                          const std::vector<std::string>& known) {
  std::vector<std::string> stems;
  for (const std::string& k : known) stems.emplace_back(Stem(k));
  const std::string stem = NearestName(Stem(name), stems);
  std::string first;
  for (const std::string& k : known) {
    if (stem.empty() || Stem(k) != stem) continue;
    if (k.substr(stem.size()) == name.substr(Stem(name).size())) return k;
    if (first.empty()) first = k;
  }
  return first;
}

absl::Status Unknown(absl::string_view key, const std::string& name,
                     std::vector<std::string> Policy::*member) {
  const std::vector<std::string> known = Names(member);
  const std::string nearest = NearestByStem(name, known);
  return ConfigUnsupported(
      {json::Value(name), std::string(key)},
      absl::StrCat(known.size(), " names of ", AllPolicies().size(),
                   " families, which `dscompile families` lists"),
      nearest.empty() ? "" : absl::StrCat("the nearest is ", nearest));
}

// The architectures named, at least one of them.
absl::StatusOr<std::vector<std::string>> Architectures(const ConfigValue& v) {
  std::vector<std::string> out;
  if (!v.value.is_array() || v.value.items().empty()) {
    return ConfigError(v, "a list of at least one name");
  }
  for (const json::Value& item : v.value.items()) {
    if (!item.is_string()) return ConfigError(v, "a list of strings");
    out.push_back(item.as_string());
  }
  return out;
}

}  // namespace

std::vector<std::string> SectionsOf(const json::Value& config) {
  std::vector<std::string> names;
  const ConfigValue architectures = FindConfig(config, "architectures");
  for (const json::Value& item : architectures.value.items()) {
    if (item.is_string()) names.push_back(item.as_string());
  }
  const ConfigValue type = FindConfig(config, "model_type");
  for (const Policy& p : AllPolicies()) {
    for (const std::string& name : names) {
      if (Holds(p.architectures, name)) return p.sections;
    }
    if (names.empty() && type.value.is_string() &&
        Holds(p.model_types, type.value.as_string())) {
      return p.sections;
    }
  }
  return {};
}

absl::StatusOr<const Policy*> MatchPolicy(const json::Value& config) {
  const ConfigValue architectures = FindConfig(config, "architectures");
  const ConfigValue model_type = FindConfig(config, "model_type");
  if (model_type.present()) {
    DS_RETURN_IF_ERROR(ConfigString(model_type).status());
  }
  if (!architectures.present()) {
    if (!model_type.present()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "config.json: architectures and model_type: both absent; allowed: ",
          "one that `dscompile families` lists; add that of the weights"));
    }
    const std::string& type = model_type.value.as_string();
    const Policy* policy = Find(&Policy::model_types, type);
    if (policy == nullptr) {
      return Unknown("model_type", type, &Policy::model_types);
    }
    return policy;
  }

  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Architectures(architectures));
  const Policy* policy = nullptr;
  for (const std::string& name : names) {
    const Policy* p = Find(&Policy::architectures, name);
    if (p == nullptr) {
      return Unknown("architectures", name, &Policy::architectures);
    }
    if (policy != nullptr && p != policy) {
      return ConfigError(architectures, "architectures of one family",
                         "keep the one that the weights belong to");
    }
    policy = p;
  }
  if (model_type.present() &&
      !Holds(policy->model_types, model_type.value.as_string())) {
    return ConfigError(
        model_type,
        absl::StrCat("\"", absl::StrJoin(policy->model_types, "\", \""),
                     "\", as architectures says ", names[0]),
        "correct the one that is wrong");
  }
  return policy;
}

}  // namespace deepslice
