#include "compiler/checkpoint/side_files.h"

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/chat_templates.h"
#include "compiler/checkpoint/file_kind.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "runtime/text/tokenizer_files.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadJson(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kConfigFileBytes));
  DS_RETURN_IF_ERROR(RefuseLfsPointer(text, path));
  auto value = json::Parse(text, {.allow_nan_and_infinity = true});
  return value.ok() ? value : Annotate(value.status(), path);
}

// The JSON object in `path`; null when the file is absent.
absl::StatusOr<json::Value> ReadObject(const std::string& path) {
  if (!FileExists(path)) return json::Value();
  DS_ASSIGN_OR_RETURN(json::Value value, ReadJson(path));
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", json::KindName(value.kind()),
                     "; must be an object"));
  }
  return value;
}

}  // namespace

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
  parts->config_place = JoinPath(folder, "config.json");
  return ReadSideFilesButConfig(folder, parts);
}

absl::Status ReadSideFilesButConfig(const std::string& folder,
                                    CheckpointParts* parts) {
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
  DS_ASSIGN_OR_RETURN(parts->special_tokens_map,
                      ReadObject(JoinPath(folder, "special_tokens_map.json")));
  std::vector<absl::string_view> names(std::begin(kSideFileNames),
                                       std::end(kSideFileNames));
  // Newer checkpoints keep the image processor there, as a part.
  names.push_back("processor_config.json");
  for (absl::string_view name : names) {
    const std::string path = JoinPath(folder, name);
    if (!FileExists(path)) continue;
    DS_ASSIGN_OR_RETURN(json::Value value, ReadJson(path));
    parts->side_files.emplace(std::string(name), std::move(value));
  }
  DS_ASSIGN_OR_RETURN(
      parts->chat_templates,
      ReadChatTemplates(folder, parts->tokenizer_config, &parts->notes));
  return absl::OkStatus();
}

}  // namespace deepslice
