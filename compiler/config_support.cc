// Refusals by name, and notes.
#include "compiler/config_support.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_value.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

struct NamedAct {
  absl::string_view name;
  Act act;
};
// gelu_new, gelu_fast, gelu_accurate and the two *_tanh are one function.
constexpr NamedAct kActivations[] = {
    {"silu", Act::kSilu},
    {"swish", Act::kSilu},
    {"gelu", Act::kGelu},
    {"gelu_python", Act::kGelu},
    {"gelu_new", Act::kGeluTanh},
    {"gelu_fast", Act::kGeluTanh},
    {"gelu_accurate", Act::kGeluTanh},
    {"gelu_pytorch_tanh", Act::kGeluTanh},
    {"gelu_python_tanh", Act::kGeluTanh},
    {"relu", Act::kRelu},
    {"relu2", Act::kRelu2},
    {"quick_gelu", Act::kQuickGelu},
    {"tanh", Act::kTanh},
};
constexpr absl::string_view kUnsupportedActivations[] = {
    "gelu_10", "hardswish", "laplace", "leaky_relu",   "linear", "mish",
    "prelu",   "relu6",     "sigmoid", "sqrtsoftplus", "xielu"};

// Types of weights by torch's names, with or without "torch.".
constexpr absl::string_view kWeightTypes[] = {"float32", "float",    "float16",
                                              "half",    "bfloat16", "float64",
                                              "double",  "auto"};

absl::Status NoteDType(const json::Value& config) {
  const ConfigValue old_name = FindConfig(config, "torch_dtype");
  const ConfigValue new_name = FindConfig(config, "dtype");
  for (const ConfigValue& v : {old_name, new_name}) {
    if (!v.present()) continue;
    DS_ASSIGN_OR_RETURN(const std::string text, ConfigString(v));
    absl::string_view type = text;
    if (absl::StartsWith(type, "torch.")) type.remove_prefix(6);
    bool known = false;
    for (absl::string_view name : kWeightTypes) known |= name == type;
    if (!known) {
      return ConfigUnsupported(v, absl::StrJoin(kWeightTypes, ", "));
    }
  }
  if (old_name.present() && new_name.present() &&
      json::Write(old_name.value) != json::Write(new_name.value)) {
    return ConfigError(
        old_name,
        absl::StrCat("the same as dtype, ", FoundText(new_name.value)),
        "keep one of the two");
  }
  return absl::OkStatus();
}

// bos, eos and pad: an id, a list of ids, or null; -1 is "none".
absl::Status NoteSpecialIds(const json::Value& config, int64_t vocab_size,
                            std::vector<std::string>* notes) {
  for (absl::string_view key :
       {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const ConfigValue v = FindConfig(config, key);
    if (!v.present()) continue;
    const std::vector<json::Value> ids =
        v.value.is_array() ? v.value.items()
                           : std::vector<json::Value>{v.value};
    for (const json::Value& id : ids) {
      if (!id.is_int()) return ConfigError(v, "an id, a list of ids, or null");
      if (id.as_int() >= vocab_size) {
        notes->push_back(absl::StrCat("config.json: ", key, " ", id.as_int(),
                                      " is beyond the vocabulary", " of ",
                                      vocab_size, "; it can't occur"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfigSupported(const json::Value& config,
                                  const std::vector<std::string>& sections) {
  if (!config.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json: found ", json::KindName(config.kind()),
                     "; allowed: an object; copy the published file again"));
  }
  for (absl::string_view key :
       {"text_config", "vision_config", "audio_config"}) {
    const ConfigValue v = FindConfig(config, key);
    if (v.present() && !absl::c_linear_search(sections, key)) {
      return absl::UnimplementedError(absl::StrCat(
          "config.json: ", key,
          ": found a model inside the model; allowed: a "
          "text decoder by itself; export the language model alone"));
    }
  }
  for (const std::string& section : sections) {
    const ConfigValue older = FindConfig(config, absl::StrCat(section, "_dict"));
    if (older.present() && !older.value.is_object()) {
      return ConfigError(older, "an object or null");
    }
  }
  for (absl::string_view key : {"quantization_config", "compression_config"}) {
    const ConfigValue v = FindConfig(config, key);
    if (!v.present()) continue;
    if (!v.value.is_object()) return ConfigError(v, "an object or null");
    const ConfigValue method =
        FindConfig(config, absl::StrCat(key, ".quant_method"));
    return absl::UnimplementedError(absl::StrCat(
        "config.json: ", key, ": found weights quantised by ",
        method.present() ? FoundText(method.value) : "an unnamed method",
        "; allowed: weights in 16 or 32 bit; take the unquantised checkpoint "
        "and quantise it with --dtype"));
  }
  return absl::OkStatus();
}

json::Value WithOlderSections(const json::Value& config,
                              const std::vector<std::string>& sections) {
  json::Value out = config;
  for (const std::string& section : sections) {
    const std::string older = absl::StrCat(section, "_dict");
    const json::Value* given = config.Find(older);
    if (given == nullptr || !given->is_object()) continue;
    out.Set(section, *given);
    out.Set(older, json::Value());
  }
  return out;
}

absl::Status NoteConfig(const json::Value& config, int64_t vocab_size,
                        std::vector<std::string>* notes) {
  if (FindConfig(config, "auto_map").present()) {
    notes->push_back(
        "config.json: auto_map names code that comes with the checkpoint; it "
        "is never run");
  }
  DS_RETURN_IF_ERROR(NoteDType(config));
  return NoteSpecialIds(config, vocab_size, notes);
}

absl::StatusOr<Act> ActivationOf(absl::string_view name,
                                 absl::string_view place) {
  std::vector<absl::string_view> names;
  for (const NamedAct& a : kActivations) {
    if (a.name == name) return a.act;
    names.push_back(a.name);
  }
  const ConfigValue found{json::Value(name), std::string(place)};
  const std::string allowed = absl::StrJoin(names, ", ");
  for (absl::string_view unsupported : kUnsupportedActivations) {
    if (unsupported == name) return ConfigUnsupported(found, allowed);
  }
  const std::string nearest = NearestName(name, names);
  return ConfigError(
      found, allowed,
      nearest.empty() ? "" : absl::StrCat("the nearest is ", nearest));
}

}  // namespace deepslice
