#include "compiler/checkpoint/side_files.h"

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/file_kind.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "runtime/text/tokenizer_files.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The JSON object in `path`; null when the file is absent.
absl::StatusOr<json::Value> ReadObject(const std::string& path) {
  if (!FileExists(path)) return json::Value();
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kConfigFileBytes));
  DS_RETURN_IF_ERROR(RefuseLfsPointer(text, path));
  auto value = json::Parse(text, {.allow_nan_and_infinity = true});
  if (!value.ok()) return Annotate(value.status(), path);
  if (!value->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", json::KindName(value->kind()),
                     "; must be an object"));
  }
  return value;
}

// The text of "chat_template": a string, or a list of named templates of which
// "default" counts.
absl::StatusOr<std::string> TemplateOf(const json::Value& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.as_string();
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
    if (name->as_string() == "default") return text->as_string();
  }
  return "";
}

absl::Status ReadChatTemplate(const std::string& folder,
                              CheckpointParts* parts) {
  const std::string file = JoinPath(folder, "chat_template.jinja");
  std::string where = file;
  if (FileExists(file)) {
    DS_ASSIGN_OR_RETURN(parts->chat_template,
                        ReadFile(file, limits::kConfigFileBytes));
    DS_RETURN_IF_ERROR(RefuseLfsPointer(parts->chat_template, file));
  } else if (const json::Value* value =
                 parts->tokenizer_config.Find("chat_template")) {
    where = JoinPath(folder, "tokenizer_config.json: chat_template");
    auto text = TemplateOf(*value);
    if (!text.ok()) return Annotate(text.status(), where);
    parts->chat_template = *std::move(text);
    if (parts->chat_template.empty() && value->is_array()) {
      parts->notes.push_back(absl::StrCat(
          where,
          ": no template is named \"default\": the model has no chat "
          "template"));
    }
  }
  return Annotate(CheckTemplateSize(parts->chat_template), where);
}

}  // namespace

absl::Status CheckTemplateSize(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) <= limits::kTemplateBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("a chat template of ", text.size(), " bytes; at most ",
                   limits::kTemplateBytes, " are allowed"));
}

absl::StatusOr<json::Value> ReadConfigObject(const std::string& path) {
  DS_ASSIGN_OR_RETURN(json::Value value, ReadObject(path));
  if (value.is_null()) {
    return absl::NotFoundError(
        absl::StrCat(path,
                     ": no such file; a model needs its config.json beside the "
                     "weights: download it too"));
  }
  return value;
}

absl::Status ReadSideFiles(const std::string& folder, CheckpointParts* parts) {
  DS_ASSIGN_OR_RETURN(parts->config,
                      ReadConfigObject(JoinPath(folder, "config.json")));
  DS_ASSIGN_OR_RETURN(parts->generation_config,
                      ReadObject(JoinPath(folder, "generation_config.json")));
  DS_ASSIGN_OR_RETURN(parts->tokenizer_config,
                      ReadObject(JoinPath(folder, "tokenizer_config.json")));
  for (const char* name : kTokenizerFileNames) {
    const std::string tokenizer = JoinPath(folder, name);
    if (!FileExists(tokenizer)) continue;
    DS_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(tokenizer));
    DS_RETURN_IF_ERROR(RefuseLfsPointer(mapped.bytes(), tokenizer));
    parts->tokenizer_json_path = tokenizer;
    break;
  }
  return ReadChatTemplate(folder, parts);
}

}  // namespace deepslice
