#include "tools/export_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schema/base/status_macros.h"
#include "tools/tokenizer_json_writer.h"

namespace deepslice {
namespace {

using Json = json::Value;

KeptFile JsonFile(absl::string_view name, const Json& value) {
  KeptFile out;
  out.name = std::string(name);
  out.text = json::Write(value, 2) + "\n";
  return out;
}

KeptFile Text(std::string name, std::string text) {
  KeptFile out;
  out.name = std::move(name);
  out.text = std::move(text);
  return out;
}

// torch's name of the type that the plan's matrices are written in; "" when
// the plan does not say it.
std::string TorchType(const KnownPlan& known) {
  const Json* dtype = known.origin.root.Find("options")->Find("dtype");
  if (dtype == nullptr) return "";
  const std::string& name = dtype->as_string();
  return name == "fp32" || name == "int8" ? "float32"
         : name == "fp16"                 ? "float16"
         : name == "bf16"                 ? "bfloat16"
                                          : "";
}

// Sets the type wherever the config says one, in its sections too.
bool SetType(const std::string& type, Json* config) {
  bool found = false;
  for (auto& [key, value] : config->members()) {
    if ((key == "torch_dtype" || key == "dtype") && value.is_string()) {
      found = true;
      // "torch.float16" of some.
      absl::string_view now = value.as_string();
      absl::ConsumePrefix(&now, "torch.");
      if (now != type) value = type;
    } else if (value.is_object() && absl::EndsWith(key, "_config")) {
      found = SetType(type, &value) || found;
    }
  }
  return found;
}

Json ConfigOf(const KnownPlan& known, Json config, bool other_types) {
  const std::string type = TorchType(known);
  if (other_types && !type.empty() && !SetType(type, &config)) {
    config.Set("torch_dtype", type);
  }
  if (known.origin.tied_head.has_value()) {
    config.Set("tie_word_embeddings", *known.origin.tied_head);
  }
  return config;
}

// What a plan knows where the source had no generation_config.json.
Json GenerationOf(const GenerationSettings& g) {
  Json out = Json::Object();
  if (g.eos_ids.size() == 1) {
    out.Set("eos_token_id", static_cast<int64_t>(g.eos_ids[0]));
  } else if (!g.eos_ids.empty()) {
    Json& list = out.Set("eos_token_id", Json::Array());
    for (const int32_t id : g.eos_ids) list.Add(static_cast<int64_t>(id));
  }
  if (g.bos_id >= 0) out.Set("bos_token_id", static_cast<int64_t>(g.bos_id));
  if (g.pad_id >= 0) out.Set("pad_token_id", static_cast<int64_t>(g.pad_id));
  return out;
}

// Templates that tokenizer_config.json does not hold as they are.
void AddTemplates(const ChatSettings& chat, const Json* tokenizer_config,
                  std::vector<KeptFile>* out) {
  const Json* known = tokenizer_config == nullptr
                          ? nullptr
                          : tokenizer_config->Find("chat_template");
  const auto holds = [&](const std::string& name, const std::string& text) {
    if (known == nullptr) return false;
    if (known->is_string()) {
      return name == "default" && known->as_string() == text;
    }
    for (const Json& item : known->items()) {
      const Json* n = item.Find("name");
      const Json* t = item.Find("template");
      if (n != nullptr && t != nullptr && n->as_string() == name) {
        return t->as_string() == text;
      }
    }
    return false;
  };
  if (!chat.templates.text.empty() && !holds("default", chat.templates.text)) {
    out->push_back(Text("chat_template.jinja", chat.templates.text));
  }
  for (const auto& [name, text] : chat.templates.named) {
    if (holds(name, text)) continue;
    const std::string path =
        absl::StrCat("additional_chat_templates/", name, ".jinja");
    if (absl::StrContains(name, "/") || !IsSafeRelativePath(path)) continue;
    out->push_back(Text(path, text));
  }
}

}  // namespace

absl::StatusOr<std::vector<KeptFile>> ExportFiles(
    const KnownPlan& known, json::Value config, bool other_types,
    std::vector<std::string>* notes) {
  const Json& root = known.origin.root;
  const PlanContents contents = known.Contents();
  std::vector<KeptFile> out;
  out.push_back(
      JsonFile("config.json", ConfigOf(known, std::move(config), other_types)));
  if (const Json* generation = root.Find("generation_config")) {
    out.push_back(JsonFile("generation_config.json", *generation));
  } else if (const Json made = GenerationOf(contents.generation);
             !made.members().empty()) {
    out.push_back(JsonFile("generation_config.json", made));
  }
  for (const absl::string_view name :
       {"tokenizer_config", "special_tokens_map"}) {
    if (const Json* value = root.Find(name)) {
      out.push_back(JsonFile(absl::StrCat(name, ".json"), *value));
    }
  }
  if (const Json* side_files = root.Find("side_files")) {
    for (const auto& [name, value] : side_files->members()) {
      if (!IsSafeRelativePath(name)) continue;
      out.push_back(JsonFile(name, value));
    }
  }
  AddTemplates(contents.chat, root.Find("tokenizer_config"), &out);
  DS_ASSIGN_OR_RETURN(std::vector<KeptFile> files, known.SourceFiles());
  bool tokenizer = false;
  for (KeptFile& file : files) {
    if (file.name == kExactTensorsFile) continue;
    tokenizer = true;
    file.name = file.name.substr(kSourceFilePrefix.size());
    out.push_back(std::move(file));
  }
  if (!tokenizer && !contents.tokenizer.empty()) {
    if (const auto made = WriteTokenizerFiles(contents.tokenizer)) {
      out.push_back(JsonFile("tokenizer.json", made->tokenizer));
      if (root.Find("tokenizer_config") == nullptr) {
        out.push_back(
            JsonFile("tokenizer_config.json", made->tokenizer_config));
      }
    } else {
      notes->push_back(
          "no tokenizer file is written: the source had its tokenizer in a "
          "GGUF file, and the plan has it compiled; copy the model's "
          "tokenizer.json beside the weights");
    }
  }
  if (const Json* policy = root.Find("policy")) {
    out.push_back(JsonFile("policy.json", *policy));
    notes->push_back(
        "the plan's policy is not a built-in one: policy.json is for "
        "dscompile --policy");
  }
  return out;
}

}  // namespace deepslice
