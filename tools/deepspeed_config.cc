#include "tools/deepspeed_config.h"

#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"
#include "tools/deepspeed_value.h"

namespace deepslice {
namespace {

// One file's reading.
class Reader {
 public:
  Reader(absl::string_view path, absl::string_view dtype) : dtype_(dtype) {
    out_.path = std::string(path);
  }

  absl::StatusOr<DeepSpeedConfig> Read(const json::Value& root) {
    DS_RETURN_IF_ERROR(RefuseOtherFiles(root));
    DS_RETURN_IF_ERROR(Collect("", "", root));
    DS_RETURN_IF_ERROR(MoveDeprecated());
    for (const DeepSpeedKey& key : DeepSpeedKeys()) {
      const auto given = given_.find(key.path);
      if (given == given_.end()) continue;
      DS_RETURN_IF_ERROR(Use(key, given->second));
    }
    DS_RETURN_IF_ERROR(CheckTogether());
    return std::move(out_);
  }

 private:
  struct Given {
    std::string where;  // as the file spells it
    const json::Value* value;
  };

  absl::Status Bad(absl::string_view where, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(out_.path, ": ", where, ": ", what));
  }
  absl::Status Holds(const Given& g, absl::string_view must) const {
    return Bad(g.where, absl::StrCat("holds ", Shown(*g.value), "; ", must));
  }
  void Note(absl::string_view where, absl::string_view what) {
    out_.notes.push_back(absl::StrCat(out_.path, ": ", where, ": ", what));
  }

  // A file of the same name lies in folders of presharded checkpoints, and one
  // of much the same beside any model.
  absl::Status RefuseOtherFiles(const json::Value& root) const {
    if (root.Find("architectures") != nullptr ||
        root.Find("model_type") != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          out_.path,
          ": is the configuration of a model, not of init_inference; leave it "
          "out, it is found beside the weights"));
    }
    if (root.Find("checkpoints") == nullptr) return absl::OkStatus();
    const bool presharded = root.Find("parallelization") != nullptr ||
                            root.Find("tp_size") != nullptr;
    return absl::InvalidArgumentError(absl::StrCat(
        out_.path, ": is the list of the files of ",
        presharded ? "a presharded checkpoint" : "a checkpoint",
        " (it has the key checkpoints), no configuration of init_inference; "
        "give it as the source: dscompile ",
        out_.path));
  }

  // The key that `name` is in `group`; nullptr for none.
  static const DeepSpeedKey* FindKey(absl::string_view group,
                                     absl::string_view name) {
    const std::string prefix = group.empty() ? "" : absl::StrCat(group, ".");
    for (const DeepSpeedKey& key : DeepSpeedKeys()) {
      absl::string_view own = key.path;
      if (!absl::ConsumePrefix(&own, prefix) || absl::StrContains(own, '.')) {
        continue;
      }
      if (own == name || (!key.alias.empty() && key.alias == name)) return &key;
    }
    return nullptr;
  }

  absl::Status Unknown(absl::string_view group, absl::string_view where,
                       absl::string_view name) const {
    const std::string prefix = group.empty() ? "" : absl::StrCat(group, ".");
    std::vector<absl::string_view> names;
    for (const DeepSpeedKey& key : DeepSpeedKeys()) {
      absl::string_view own = key.path;
      if (key.use == KeyUse::kRefused || !absl::ConsumePrefix(&own, prefix) ||
          absl::StrContains(own, '.')) {
        continue;
      }
      names.push_back(own);
      if (!key.alias.empty()) names.push_back(key.alias);
    }
    std::string nearest = NearestName(name, names);
    // A key of a group that stands outside of it.
    for (const DeepSpeedKey& key : DeepSpeedKeys()) {
      const bool counts =
          key.use == KeyUse::kFlag || key.use == KeyUse::kDefault;
      if (counts && absl::EndsWith(key.path, absl::StrCat(".", name))) {
        nearest = std::string(key.path);
        break;
      }
    }
    return absl::InvalidArgumentError(absl::StrCat(
        out_.path, ": key ", Shown(json::Value(absl::StrCat(where, name))),
        " is not one of DeepSpeed's inference configuration; ",
        nearest.empty() ? "leave it out (dscompile deepspeed-keys prints all)"
                        : absl::StrCat("did you mean ", nearest, "?")));
  }

  absl::Status Collect(absl::string_view group, absl::string_view where,
                       const json::Value& object) {
    for (const auto& [name, value] : object.members()) {
      const DeepSpeedKey* key = FindKey(group, name);
      if (key == nullptr) return Unknown(group, where, name);
      const Given given{absl::StrCat(where, name), &value};
      if (key->use == KeyUse::kRefused) return Bad(given.where, key->how);
      if (value.is_string() && value.as_string() == "auto" &&
          name != "replace_method") {
        continue;
      }
      const auto [before, added] = given_.emplace(key->path, given);
      if (!added) {
        const Given& other = before->second;
        if (json::Write(*other.value) == json::Write(value)) continue;
        return Bad(
            absl::StrCat(other.where, " and ", given.where),
            absl::StrCat("hold ", Shown(*other.value), " and ", Shown(value),
                         "; they are one key, give it once"));
      }
      const bool group_here =
          key->value == KeyValue::kGroup ||
          (key->value == KeyValue::kSwitchOrGroup && !ReadSwitch(value));
      if (!group_here) continue;
      if (!value.is_object()) return Holds(given, GroupMust(*key));
      DS_RETURN_IF_ERROR(
          Collect(key->path, absl::StrCat(given.where, "."), value));
    }
    return absl::OkStatus();
  }

  static std::string GroupMust(const DeepSpeedKey& key) {
    std::vector<std::string> names;
    for (const DeepSpeedKey& k : DeepSpeedKeys()) {
      absl::string_view own = k.path;
      if (absl::ConsumePrefix(&own, absl::StrCat(key.path, ".")) &&
          !absl::StrContains(own, '.')) {
        names.push_back(std::string(own));
      }
    }
    return absl::StrCat("must be an object of ", absl::StrJoin(names, ", "));
  }

  absl::Status MoveDeprecated() {
    std::vector<std::string> moved;
    for (const DeepSpeedKey& key : DeepSpeedKeys()) {
      if (key.use != KeyUse::kMoved) continue;
      const auto given = given_.find(key.path);
      if (given == given_.end()) continue;
      const auto [other, added] = given_.emplace(key.to, given->second);
      if (!added) {
        return Bad(
            absl::StrCat(given->second.where, " and ", other->second.where),
            absl::StrCat("both are given; ", given->second.where,
                         " is deprecated, keep ", key.to));
      }
      moved.push_back(absl::StrCat(given->second.where, ", use ", key.to));
    }
    if (!moved.empty()) {
      out_.notes.push_back(absl::StrCat(
          out_.path, ": deprecated: ", absl::StrJoin(moved, "; ")));
    }
    return absl::OkStatus();
  }

  absl::Status Use(const DeepSpeedKey& key, const Given& g) {
    if (key.use == KeyUse::kMoved || key.use == KeyUse::kGroup) {
      return absl::OkStatus();
    }
    if (const std::string must = WrongKind(key, *g.value); !must.empty()) {
      return Holds(g, must);
    }
    switch (key.use) {
      case KeyUse::kFlag:
      case KeyUse::kRunFlag:
        return AddSetting(key, g);
      case KeyUse::kIgnored:
        if (!IsDefault(key, *g.value)) {
          Note(g.where, absl::StrCat("ignored: ", key.how));
        }
        return absl::OkStatus();
      case KeyUse::kDefault:
        if (IsDefault(key, *g.value)) return absl::OkStatus();
        if (key.value == KeyValue::kCount) {
          return absl::UnimplementedError(Holds(g, key.how).message());
        }
        return Holds(g, key.how);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status AddSetting(const DeepSpeedKey& key, const Given& g) {
    const json::Value& v = *g.value;
    std::string value;
    switch (key.value) {
      case KeyValue::kCount:
        value = absl::StrCat(*ReadCount(v));
        // Of the checkpoint's ranks the default says nothing.
        if (key.to == "training-mp-size" && value == "1") value.clear();
        break;
      case KeyValue::kDtype:
        value = std::string(ReadDtype(v));
        break;
      case KeyValue::kInjection: {
        if (IsEmpty(v)) break;
        const auto text = InjectionText(v);
        if (!text.ok()) return Holds(g, text.status().message());
        value = *text;
        break;
      }
      case KeyValue::kCheckpoint:
        if (v.is_object()) {
          out_.holds_checkpoint = true;
          value = out_.path;
          break;
        }
        value = v.as_string();
        break;
      default:
        value = v.as_string();
        break;
    }
    if (value.empty()) return absl::OkStatus();
    out_.settings.push_back(
        {g.where, std::string(key.to), value, key.use, key.value});
    return absl::OkStatus();
  }

  const Given* FindGiven(absl::string_view path) const {
    const auto found = given_.find(path);
    return found == given_.end() ? nullptr : &found->second;
  }
  int64_t Number(absl::string_view flag) const {
    const DeepSpeedSetting* s = out_.Find(flag);
    int64_t n = 0;
    return s != nullptr && absl::SimpleAtoi(s->value, &n) ? n : 0;
  }
  bool IsOff(absl::string_view path) const {
    const Given* g = FindGiven(path);
    return g != nullptr && ReadSwitch(*g->value) == false;
  }

  absl::Status CheckTogether() {
    if (IsOff("tensor_parallel.enabled") && Number("tp") > 1) {
      return Bad(FindGiven("tensor_parallel.enabled")->where,
                 absl::StrCat("is false, and tp_size is ", Number("tp"),
                              "; leave one of them out"));
    }
    const Given* inject = FindGiven("replace_with_kernel_inject");
    const DeepSpeedSetting* policy = out_.Find("injection");
    if (policy != nullptr && inject != nullptr &&
        ReadSwitch(*inject->value) == true) {
      return Bad(absl::StrCat(policy->key, " and ", inject->where),
                 "exclude each other, as in DeepSpeed; keep one");
    }
    const int64_t most = Number("max-seq-len"),
                  least = Number("min-out-tokens");
    if (most > 0 && least > most) {
      return Bad(out_.Find("min-out-tokens")->key,
                 absl::StrCat("holds ", least, ", more than the ", most, " of ",
                              out_.Find("max-seq-len")->key,
                              "; must be at most that"));
    }
    return CheckQuant();
  }

  // `quant` beside the type that counts.
  absl::Status CheckQuant() {
    const Given* quant = FindGiven("quant");
    if (quant == nullptr || IsEmpty(*quant->value)) return absl::OkStatus();
    const DeepSpeedSetting* own = out_.Find("dtype");
    const bool int8 = (own != nullptr ? own->value : dtype_) == "int8";
    for (const absl::string_view path :
         {"quant.enabled", "quant.weight.enabled"}) {
      if (!IsOff(path)) continue;
      if (!int8) return absl::OkStatus();
      return Bad(FindGiven(path)->where,
                 "is false, and the dtype is int8; leave one of them out");
    }
    if (!int8) {
      Note(quant->where,
           "ignored, as by DeepSpeed's engine: weights keep their type; dtype "
           "int8 quantises them");
      return absl::OkStatus();
    }
    for (const absl::string_view name : {"num_bits", "q_type", "q_groups"}) {
      const DeepSpeedKey& key = *FindKey("quant.weight", name);
      const Given* g = FindGiven(key.path);
      if (g == nullptr || IsDefault(key, *g->value)) continue;
      return absl::UnimplementedError(
          Holds(*g,
                "dtype int8 is 8 bits, symmetric, a scale for each row; "
                "leave it out")
              .message());
    }
    return absl::OkStatus();
  }

  const std::string dtype_;
  DeepSpeedConfig out_;
  std::map<absl::string_view, Given> given_;  // by the table's paths
};

}  // namespace

const DeepSpeedSetting* DeepSpeedConfig::Find(absl::string_view flag) const {
  for (const DeepSpeedSetting& s : settings) {
    if (s.flag == flag) return &s;
  }
  return nullptr;
}

absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfig(absl::string_view path,
                                                    absl::string_view text,
                                                    absl::string_view dtype) {
  auto root = json::Parse(text);
  bool commas = false;
  if (!root.ok()) {
    auto lenient = json::Parse(text, {.allow_trailing_commas = true});
    if (!lenient.ok()) return Annotate(root.status(), path);
    root = std::move(lenient);
    commas = true;
  }
  if (!root->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": holds ", Shown(*root),
        "; must be an object with the keys of DeepSpeed's inference "
        "configuration"));
  }
  DS_ASSIGN_OR_RETURN(DeepSpeedConfig config, Reader(path, dtype).Read(*root));
  if (commas) {
    config.notes.insert(
        config.notes.begin(),
        absl::StrCat(path,
                     ": has trailing commas, which are not JSON; they "
                     "are left out"));
  }
  return config;
}

absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfigFile(
    const std::string& path, absl::string_view dtype) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kConfigFileBytes));
  return ReadDeepSpeedConfig(path, text, dtype);
}

}  // namespace deepslice
