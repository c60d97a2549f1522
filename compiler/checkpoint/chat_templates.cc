#include "compiler/checkpoint/chat_templates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/file_kind.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kDefault = "default";
constexpr size_t kMostNamed = 64;  // published models have up to three

// Adds a template, or replaces the one of that name.
absl::Status Add(absl::string_view name, std::string text,
                 ChatTemplates* templates) {
  if (static_cast<int64_t>(text.size()) > limits::kTemplateBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a chat template of ", text.size(), " bytes; at most ",
                     limits::kTemplateBytes, " are allowed"));
  }
  if (name == kDefault) {
    templates->text = std::move(text);
    return absl::OkStatus();
  }
  for (auto& [known, value] : templates->named) {
    if (known != name) continue;
    value = std::move(text);
    return absl::OkStatus();
  }
  if (templates->named.size() >= kMostNamed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "more than ", kMostNamed, " named chat templates; at most ", kMostNamed,
        " are allowed"));
  }
  templates->named.emplace_back(std::string(name), std::move(text));
  return absl::OkStatus();
}

// "chat_template" of tokenizer_config.json.
absl::Status AddFromConfig(const json::Value& value, ChatTemplates* out) {
  if (value.is_null()) return absl::OkStatus();
  if (value.is_string()) return Add(kDefault, value.as_string(), out);
  if (!value.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", json::KindName(value.kind()),
                     "; must be a string or a list of named templates"));
  }
  for (const json::Value& item : value.items()) {
    const json::Value* name = item.Find("name");
    const json::Value* text = item.Find("template");
    if (name == nullptr || !name->is_string() || text == nullptr ||
        !text->is_string()) {
      return absl::InvalidArgumentError(
          "an item of the list is not {\"name\": ..., \"template\": ...}");
    }
    DS_RETURN_IF_ERROR(Add(name->as_string(), text->as_string(), out));
  }
  return absl::OkStatus();
}

absl::Status AddFromFile(absl::string_view name, const std::string& path,
                         ChatTemplates* out) {
  DS_ASSIGN_OR_RETURN(std::string text,
                      ReadFile(path, limits::kConfigFileBytes));
  DS_RETURN_IF_ERROR(RefuseLfsPointer(text, path));
  return Annotate(Add(name, std::move(text), out), path);
}

}  // namespace

absl::StatusOr<ChatTemplates> ReadChatTemplates(
    const std::string& folder, const json::Value& tokenizer_config,
    std::vector<std::string>* notes) {
  ChatTemplates out;
  if (const json::Value* value = tokenizer_config.Find("chat_template")) {
    DS_RETURN_IF_ERROR(
        Annotate(AddFromConfig(*value, &out),
                 JoinPath(folder, "tokenizer_config.json: chat_template")));
  }
  const std::string file = JoinPath(folder, "chat_template.jinja");
  if (FileExists(file)) DS_RETURN_IF_ERROR(AddFromFile(kDefault, file, &out));
  const std::string more = JoinPath(folder, "additional_chat_templates");
  if (DirectoryExists(more)) {
    DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(more));
    for (const std::string& name : names) {
      absl::string_view stem = name;
      if (!absl::ConsumeSuffix(&stem, ".jinja")) continue;
      DS_RETURN_IF_ERROR(AddFromFile(stem, JoinPath(more, name), &out));
    }
  }
  std::sort(out.named.begin(), out.named.end());
  if (out.text.empty() && !out.named.empty()) {
    notes->push_back(
        absl::StrCat(folder, ": none of its ", out.named.size(),
                     " chat templates is named \"default\"; dsrun needs "
                     "--chat-template NAME (there is \"",
                     out.named[0].first, "\")"));
  }
  return out;
}

absl::StatusOr<ChatTemplates> GgufChatTemplates(const json::Value& metadata) {
  ChatTemplates out;
  for (const auto& [key, value] : metadata.members()) {
    absl::string_view name = key;
    if (!value.is_string() ||
        !absl::ConsumePrefix(&name, "tokenizer.chat_template")) {
      continue;
    }
    if (name.empty()) {
      name = kDefault;
    } else if (!absl::ConsumePrefix(&name, ".")) {
      continue;  // tokenizer.chat_templates lists the names
    }
    DS_RETURN_IF_ERROR(Annotate(Add(name, value.as_string(), &out), key));
  }
  std::sort(out.named.begin(), out.named.end());
  return out;
}

}  // namespace deepslice
