// Policy files to structs, and the patterns of tensor names in them.
#include "compiler/policy.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/embedded_policies.h"
#include "compiler/policy_expression.h"
#include "schema/base/check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kLayerMark = "{i}";
constexpr absl::string_view kHeadMark = "{h}";
constexpr absl::string_view kMarks[] = {"{prefix}", kLayerMark, kHeadMark};
constexpr absl::string_view kLayoutAttribute = "qkv_layout";

// By the value of RowLayout.
constexpr absl::string_view kLayouts[] = {"thirds", "per_head", "per_group",
                                          "per_row"};

// By the value of TaskHead.
constexpr absl::string_view kTaskHeads[] = {
    "causal_lm",     "none",     "masked_lm", "sequence_classes",
    "token_classes", "question_answering", "features"};

absl::Status Bad(absl::string_view place, const json::Value* found,
                 absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      place, ": ",
      found == nullptr ? "absent" : absl::StrCat("found ", FoundText(*found)),
      "; allowed: ", allowed));
}

absl::StatusOr<std::vector<std::string>> Strings(const json::Value& object,
                                                 absl::string_view key) {
  const json::Value* list = object.Find(key);
  if (list == nullptr || !list->is_array()) {
    return Bad(key, list, "a list of strings");
  }
  std::vector<std::string> out;
  for (const json::Value& item : list->items()) {
    if (!item.is_string()) return Bad(key, &item, "a string");
    out.push_back(item.as_string());
  }
  return out;
}

// An object of strings.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> StringPairs(
    const json::Value& object, absl::string_view key) {
  std::vector<std::pair<std::string, std::string>> out;
  const json::Value* found = object.Find(key);
  if (found == nullptr) return out;
  if (!found->is_object()) return Bad(key, found, "an object of strings");
  for (const auto& [name, value] : found->members()) {
    if (!value.is_string()) return Bad(key, &value, "a string");
    out.emplace_back(name, value.as_string());
  }
  return out;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Heads(
    const json::Value& object, const std::vector<std::string>& architectures) {
  DS_ASSIGN_OR_RETURN(auto heads, StringPairs(object, "heads"));
  for (const auto& [architecture, head] : heads) {
    const bool known =
        std::find(std::begin(kTaskHeads), std::end(kTaskHeads), head) !=
            std::end(kTaskHeads) &&
        std::find(architectures.begin(), architectures.end(), architecture) !=
            architectures.end();
    if (!known) {
      return Bad(absl::StrCat("heads.", architecture),
                 object.Find("heads")->Find(architecture),
                 absl::StrCat("of one of the architectures, ",
                              absl::StrJoin(kTaskHeads, ", ")));
    }
  }
  if (heads.empty() || heads.size() == architectures.size()) return heads;
  return Bad("heads", object.Find("heads"), "one for each architecture");
}

// An object of expressions.
absl::StatusOr<json::Value> Expressions(const json::Value& object,
                                        absl::string_view key) {
  const json::Value* found = object.Find(key);
  if (found == nullptr) return json::Value::Object();
  if (!found->is_object()) return Bad(key, found, "an object");
  for (const auto& [name, expression] : found->members()) {
    DS_RETURN_IF_ERROR(Annotate(CheckExpression(expression), key, ".", name));
  }
  return *found;
}

absl::StatusOr<std::vector<RequiredValue>> Required(const json::Value& object) {
  std::vector<RequiredValue> out;
  const json::Value* list = object.Find("require");
  if (list == nullptr) return out;
  for (const json::Value& item : list->items()) {
    const json::Value* key = item.Find("key");
    const json::Value* equals = item.Find("equals");
    const json::Value* one_of = item.Find("one_of");
    if (key == nullptr || !key->is_string() || item.members().size() != 2 ||
        (equals == nullptr && (one_of == nullptr || one_of->items().empty()))) {
      return Bad("require", &item,
                 "{\"key\": ..., \"equals\": ...} or {\"key\": ..., "
                 "\"one_of\": [...]}");
    }
    if (equals != nullptr) {
      out.push_back({key->as_string(), {*equals}});
    } else {
      out.push_back({key->as_string(), one_of->items()});
    }
  }
  return out;
}

absl::StatusOr<WeightPattern> Pattern(const json::Value& item,
                                      const Policy& policy) {
  const json::Value& flags = policy.flags;
  WeightPattern p;
  std::vector<std::string> slots;
  for (const auto& [key, value] : item.members()) {
    if (key == "name" && value.is_string()) {
      DS_ASSIGN_OR_RETURN(p.names, ExpandChoices(value.as_string()));
      p.name = p.names[0];
    } else if (key == "weight" && value.is_string()) {
      slots.push_back(value.as_string());
    } else if (key == "weights") {
      DS_ASSIGN_OR_RETURN(slots, Strings(item, key));
    } else if (key == "layout" && value.is_string() &&
               value.as_string() == kLayoutAttribute) {
      if (policy.attributes.Find(kLayoutAttribute) == nullptr) {
        return Bad(absl::StrCat("attributes.", kLayoutAttribute), nullptr,
                   "the layout of the tensors that name it");
      }
      p.layout_by_config = true;
    } else if (key == "layout") {
      const auto at = std::find(std::begin(kLayouts), std::end(kLayouts),
                                value.is_string() ? value.as_string() : "");
      if (at == std::end(kLayouts)) {
        return Bad("layout", &value,
                   absl::StrCat(absl::StrJoin(kLayouts, ", "), ", ",
                                kLayoutAttribute));
      }
      p.layout = static_cast<RowLayout>(at - std::begin(kLayouts));
    } else if (key == "transposed" && value.is_bool()) {
      p.transposed = value.as_bool();
    } else if (key == "or" && value.is_string()) {
      p.other_name = value.as_string();
    } else if (key == "optional" && value.is_bool()) {
      p.optional = value.as_bool();
    } else if (key == "of") {
      DS_ASSIGN_OR_RETURN(p.of, Strings(item, key));
      for (const std::string& head : p.of) {
        if (std::find(std::begin(kTaskHeads), std::end(kTaskHeads), head) ==
            std::end(kTaskHeads)) {
          return Bad(key, &value, absl::StrJoin(kTaskHeads, ", "));
        }
      }
    } else if (key == "when" && value.is_string() &&
               flags.Find(value.as_string()) != nullptr) {
      p.flag = value.as_string();
    } else if (key == "unless" && value.is_string() &&
               flags.Find(value.as_string()) != nullptr) {
      p.not_flag = value.as_string();
    } else {
      return Bad(key, &value,
                 "name, or, weight or weights, layout, transposed, optional, "
                 "of, or when or unless with a name under \"flags\"");
    }
  }
  for (const std::string& name : slots) {
    const WeightSlot* slot = FindWeightSlot(name);
    if (slot == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight: found \"", name, "\"; allowed: ",
                       absl::StrJoin(AllWeightSlots(), ", ",
                                     [](std::string* out, const WeightSlot& s) {
                                       absl::StrAppend(out, s.name);
                                     })));
    }
    p.slots.push_back(slot);
    if (slot->per_layer != absl::StrContains(p.name, kLayerMark)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", p.name, "\": allowed: {i} where the weight is one of a layer, ",
          "and only there"));
    }
  }
  if (p.name.empty() || p.slots.empty()) {
    return Bad("weights", &item, "a name and a weight");
  }
  if ((p.layout == RowLayout::kPerGroup || p.layout_by_config) &&
      (p.slots.size() != 3 || !absl::StartsWith(p.slots[0]->name, "attn_q") ||
       !absl::StartsWith(p.slots[1]->name, "attn_k") ||
       !absl::StartsWith(p.slots[2]->name, "attn_v"))) {
    return Bad("weights", item.Find("weights"),
               "attn_q, attn_k and attn_v, or their biases, with per_group and "
               "qkv_layout");
  }
  if ((p.slots.size() > 1) != (item.Find("layout") != nullptr)) {
    return Bad("layout", item.Find("layout"),
               "the order of several weights in one tensor, only with them");
  }
  return p;
}

absl::Status ReadWeights(const json::Value& root, Policy* out) {
  const json::Value* weights = root.Find("weights");
  if (weights == nullptr || !weights->is_array()) {
    return Bad("weights", weights, "a list of objects");
  }
  for (const json::Value& item : weights->items()) {
    DS_ASSIGN_OR_RETURN(WeightPattern pattern, Pattern(item, *out));
    out->weights.push_back(std::move(pattern));
  }
  return absl::OkStatus();
}

absl::Status CheckKeys(const json::Value& object,
                       absl::Span<const absl::string_view> keys) {
  for (const auto& [key, value] : object.members()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "found key \"", key, "\"; allowed: ", absl::StrJoin(keys, ", ")));
    }
  }
  return absl::OkStatus();
}

// A stack beside the main one, whose attributes it has but for its own.
absl::StatusOr<Policy> ReadTower(const std::string& name,
                                 const json::Value& object,
                                 const Policy& main) {
  constexpr absl::string_view kKeys[] = {"attributes", "weights"};
  DS_RETURN_IF_ERROR(CheckKeys(object, kKeys));
  Policy out;
  out.name = main.name;
  out.tower = name;
  out.architectures = main.architectures;
  for (const std::string& a : main.architectures) {
    out.heads.emplace_back(a, "none");
  }
  out.prefixes = main.prefixes;
  out.renames = main.renames;
  out.flags = main.flags;
  DS_ASSIGN_OR_RETURN(const json::Value own, Expressions(object, "attributes"));
  out.attributes = own;
  for (const auto& [key, expression] : main.attributes.members()) {
    if (own.Find(key) == nullptr) out.attributes.Set(key, expression);
  }
  DS_RETURN_IF_ERROR(ReadWeights(object, &out));
  return out;
}

// Each is a weight that the policy has.
absl::Status ReadPrecise(const json::Value& root, Policy* out) {
  const json::Value* list = root.Find("precise");
  if (list == nullptr) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(out->precise, Strings(root, "precise"));
  for (const std::string& name : out->precise) {
    const bool known = std::any_of(
        out->weights.begin(), out->weights.end(), [&](const WeightPattern& w) {
          return std::any_of(w.slots.begin(), w.slots.end(),
                             [&](const auto* s) { return s->name == name; });
        });
    if (!known) return Bad("precise", list, "names of the policy's weights");
  }
  return absl::OkStatus();
}

absl::StatusOr<Policy> Read(absl::string_view text) {
  DS_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text));
  Policy out;
  const json::Value* name = root.Find("policy");
  if (name == nullptr || !name->is_string()) {
    return Bad("policy", name, "a string");
  }
  out.name = name->as_string();
  constexpr absl::string_view kKeys[] = {
      "policy",     "architectures", "heads",    "model_types",  "prefixes",
      "attributes", "flags",         "require",  "renames",      "weights",
      "unused",     "towers",        "sections", "scale_tensor", "precise",
      "own_head_counts"};
  DS_RETURN_IF_ERROR(CheckKeys(root, kKeys));
  DS_ASSIGN_OR_RETURN(out.architectures, Strings(root, "architectures"));
  DS_ASSIGN_OR_RETURN(out.heads, Heads(root, out.architectures));
  DS_ASSIGN_OR_RETURN(out.renames, StringPairs(root, "renames"));
  DS_ASSIGN_OR_RETURN(out.model_types, Strings(root, "model_types"));
  DS_ASSIGN_OR_RETURN(out.prefixes, Strings(root, "prefixes"));
  if (out.prefixes.empty()) out.prefixes.push_back("");
  DS_ASSIGN_OR_RETURN(out.attributes, Expressions(root, "attributes"));
  DS_ASSIGN_OR_RETURN(out.flags, Expressions(root, "flags"));
  DS_ASSIGN_OR_RETURN(out.require, Required(root));
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> unused,
                      Strings(root, "unused"));
  for (const std::string& text : unused) {
    DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ExpandChoices(text));
    out.unused.insert(out.unused.end(), names.begin(), names.end());
  }
  if (root.Find("sections") != nullptr) {
    DS_ASSIGN_OR_RETURN(out.sections, Strings(root, "sections"));
  }
  if (const json::Value* scale = root.Find("scale_tensor")) {
    if (!scale->is_string()) return Bad("scale_tensor", scale, "a string");
    out.scale_tensor = scale->as_string();
  }
  if (const json::Value* own = root.Find("own_head_counts")) {
    if (!own->is_bool()) return Bad("own_head_counts", own, "true or false");
    out.own_head_counts = own->as_bool();
  }
  DS_RETURN_IF_ERROR(ReadWeights(root, &out));
  DS_RETURN_IF_ERROR(ReadPrecise(root, &out));
  const json::Value* towers = root.Find("towers");
  if (towers == nullptr) return out;
  if (!towers->is_object()) return Bad("towers", towers, "an object");
  for (const auto& [tower, object] : towers->members()) {
    absl::StatusOr<Policy> read = ReadTower(tower, object, out);
    if (!read.ok()) return Annotate(read.status(), "towers.", tower);
    out.towers.push_back(*std::move(read));
  }
  return out;
}

// Parsed once; a file that doesn't parse is a broken build.
std::vector<Policy>* ReadEmbedded() {
  auto* out = new std::vector<Policy>();
  for (int i = 0; i < kPolicyFilesCount; ++i) {
    absl::StatusOr<Policy> policy =
        ParsePolicy(kPolicyFiles[i].text, kPolicyFiles[i].name);
    if (!policy.ok()) {
      std::fprintf(stderr, "%s\n", policy.status().ToString().c_str());
    }
    DS_CHECK(policy.ok());
    out->push_back(*std::move(policy));
  }
  return out;
}

// Takes the digits that `text` begins with; -1 when there are none. "007" is
// nobody's layer 7: the published names have no leading zeros.
int64_t TakeNumber(absl::string_view* text) {
  size_t n = 0;
  while (n < text->size() && (*text)[n] >= '0' && (*text)[n] <= '9') ++n;
  const absl::string_view digits = text->substr(0, n);
  int64_t number = 0;
  if ((n > 1 && digits[0] == '0') || !absl::SimpleAtoi(digits, &number)) {
    return -1;
  }
  text->remove_prefix(n);
  return number;
}

}  // namespace

absl::Span<const absl::string_view> TaskHeadNames() { return kTaskHeads; }

absl::StatusOr<Policy> ParsePolicy(absl::string_view text,
                                   absl::string_view file) {
  absl::StatusOr<Policy> policy = Read(text);
  if (!policy.ok()) return Annotate(policy.status(), "policies/", file);
  return policy;
}

absl::StatusOr<Policy> ParsePolicyFile(absl::string_view text,
                                       absl::string_view name) {
  absl::StatusOr<Policy> policy = Read(text);
  if (!policy.ok()) return Annotate(policy.status(), name);
  if (policy->architectures.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": architectures: found none; allowed: a list of "
                           "at least one name"));
  }
  return policy;
}

absl::Span<const absl::string_view> RowLayoutNames() { return kLayouts; }

absl::StatusOr<std::vector<std::string>> ExpandChoices(absl::string_view text) {
  constexpr size_t kMostNames = 64;
  std::vector<std::string> out = {""};
  absl::string_view rest = text;
  const auto bad = [&](absl::string_view allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": allowed: ", allowed));
  };
  while (!rest.empty()) {
    const size_t open = rest.find_first_of("{}");
    const size_t close = rest.find('}');
    const absl::string_view plain = rest.substr(0, open);
    for (std::string& name : out) absl::StrAppend(&name, plain);
    if (open == absl::string_view::npos) break;
    if (close == absl::string_view::npos || close == open) {
      return bad("braces in pairs");
    }
    const absl::string_view mark = rest.substr(open, close + 1 - open);
    rest.remove_prefix(close + 1);
    std::vector<absl::string_view> choices = {mark};
    if (absl::StrContains(mark, '|')) {
      choices = absl::StrSplit(mark.substr(1, mark.size() - 2), '|');
    } else if (std::find(std::begin(kMarks), std::end(kMarks), mark) ==
               std::end(kMarks)) {
      return bad("{prefix}, {i}, {h} and {one|other}");
    }
    std::vector<std::string> longer;
    for (const std::string& name : out) {
      for (absl::string_view choice : choices) {
        if (absl::StrContains(choice, '{')) {
          if (choice != mark) return bad("no braces inside braces");
        }
        longer.push_back(absl::StrCat(name, choice));
      }
    }
    if (longer.size() > kMostNames) {
      return bad(absl::StrCat("at most ", kMostNames, " names in one pattern"));
    }
    out = std::move(longer);
  }
  return out;
}

const std::vector<Policy>& AllPolicies() {
  static const std::vector<Policy>* const policies = ReadEmbedded();
  return *policies;
}

NamePattern::NamePattern(absl::string_view pattern, absl::string_view prefix) {
  head_ = absl::StrReplaceAll(pattern, {{"{prefix}", prefix}});
  const auto split = [](absl::string_view mark, std::string* text,
                        std::string* rest) {
    const size_t at = text->find(mark.data(), 0, mark.size());
    if (at == std::string::npos) return false;
    *rest = text->substr(at + mark.size());
    text->resize(at);
    return true;
  };
  per_layer_ = split(kLayerMark, &head_, &middle_);
  per_head_ = per_layer_ && split(kHeadMark, &middle_, &tail_);
}

std::string NamePattern::Name(int64_t layer, int64_t head) const {
  if (!per_layer_) return head_;
  if (!per_head_) return absl::StrCat(head_, layer, middle_);
  return absl::StrCat(head_, layer, middle_, head, tail_);
}

int64_t NamePattern::Match(absl::string_view tensor) const {
  if (!per_layer_) return tensor == head_ ? 0 : -1;
  if (!absl::ConsumePrefix(&tensor, head_)) return -1;
  const int64_t layer = TakeNumber(&tensor);
  if (layer < 0 || !absl::ConsumePrefix(&tensor, middle_)) return -1;
  if (per_head_ &&
      (TakeNumber(&tensor) < 0 || !absl::ConsumePrefix(&tensor, tail_))) {
    return -1;
  }
  return tensor.empty() ? layer : -1;
}

}  // namespace deepslice
