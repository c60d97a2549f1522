// Tells tokenizer files apart by name and first bytes.
#include "runtime/text/tokenizer_files.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadJsonBeside(const std::string& folder,
                                           absl::string_view name) {
  const std::string path = JoinPath(folder, name);
  if (!FileExists(path)) return json::Value();
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  auto value = json::Parse(text, {.allow_nan_and_infinity = true});
  if (!value.ok()) return Annotate(value.status(), path);
  if (!value->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", json::KindName(value->kind()),
                     "; must be an object"));
  }
  return value;
}

absl::string_view LastPart(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

// sentencepiece's file starts with its first piece, field 1 of its message.
bool LooksLikeRanks(absl::string_view bytes) {
  const absl::string_view line = bytes.substr(0, bytes.find('\n'));
  const size_t space = line.find(' ');
  if (space == line.npos || space == 0 || space + 1 >= line.size()) {
    return false;
  }
  for (char c : line.substr(0, space)) {
    const bool base64 = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                        (c >= '0' && c <= '9') || c == '+' || c == '/' ||
                        c == '=';
    if (!base64) return false;
  }
  return true;
}

// By the file's name, then by the model beside it.
std::string EncodingByName(absl::string_view path,
                           absl::string_view model_type) {
  const absl::string_view name = LastPart(path);
  if (name.find('.') != name.npos && !absl::StartsWith(name, "tokenizer.")) {
    return std::string(name.substr(0, name.find('.')));
  }
  if (model_type == "llama") return "llama3";
  if (model_type == "qwen") return "qwen";
  // Meta's own folders hold params.json and no config.json.
  if (model_type.empty() && name == "tokenizer.model") return "llama3";
  return "";
}

}  // namespace

std::string FindTokenizerFile(const std::string& folder) {
  for (const char* name : kTokenizerFileNames) {
    const std::string path = JoinPath(folder, name);
    if (FileExists(path)) return path;
  }
  return "";
}

absl::StatusOr<TokenizerTables> ReadTokenizerFiles(
    const std::string& path, const TokenizerFileOptions& options) {
  if (DirectoryExists(path)) {
    const std::string file = FindTokenizerFile(path);
    if (!file.empty()) return ReadTokenizerFiles(file, options);
    return absl::NotFoundError(absl::StrCat(
        path,
        ": holds no tokenizer.json, tokenizer.model, spiece.model or "
        "qwen.tiktoken; name the tokenizer's file"));
  }
  DS_ASSIGN_OR_RETURN(const std::string bytes,
                      ReadFile(path, limits::kJsonFileBytes));
  const std::string folder = Dirname(path);
  DS_ASSIGN_OR_RETURN(const json::Value config,
                      ReadJsonBeside(folder, "tokenizer_config.json"));
  if (absl::EndsWith(path, ".json")) {
    auto tables = ReadTokenizerJson(bytes, config);
    // Its errors begin with the name that such a file has.
    if (!tables.ok() && LastPart(path) == "tokenizer.json") {
      return absl::Status(tables.status().code(),
                          JoinPath(folder, tables.status().message()));
    }
    DS_RETURN_IF_ERROR(Annotate(tables.status(), path));
    return tables;
  }
  DS_ASSIGN_OR_RETURN(const json::Value model,
                      ReadJsonBeside(folder, "config.json"));
  const json::Value* type = model.Find("model_type");
  const std::string model_type =
      type != nullptr && type->is_string() ? type->as_string()
      : model.is_null()                    ? options.model_type
                                           : "";
  const bool ranks = LooksLikeRanks(bytes);
  auto tables = ranks
                    ? ReadTokenizerRanks(bytes,
                                         options.pattern.empty()
                                             ? EncodingByName(path, model_type)
                                             : options.pattern,
                                         config)
                    : ReadTokenizerSentencePiece(bytes, config, model_type);
  DS_RETURN_IF_ERROR(Annotate(tables.status(), path));
  return tables;
}

}  // namespace deepslice
