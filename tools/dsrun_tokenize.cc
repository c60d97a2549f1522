// dsrun tokenize: what a tokenizer makes of a list of texts.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/deepslice.h"
#include "runtime/api/handle.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

void PrintNote(void*, const char* text) {
  absl::FPrintF(stderr, "note: %s\n", OneLine(text));
}

absl::StatusOr<std::vector<int32_t>> Encode(const ds_tokenizer* tokenizer,
                                            const std::string& text,
                                            uint32_t flags) {
  int32_t* ids = nullptr;
  size_t count = 0;
  DS_RETURN_IF_ERROR(StatusOf(
      ds_tokenize(tokenizer, {text.data(), text.size()}, flags, &ids, &count)));
  const Handle<int32_t> owned(ids);
  return std::vector<int32_t>(ids, ids + count);
}

absl::StatusOr<std::string> Decode(const ds_tokenizer* tokenizer,
                                   const std::vector<int32_t>& ids,
                                   bool skip_special) {
  char* text = nullptr;
  size_t size = 0;
  DS_RETURN_IF_ERROR(StatusOf(ds_detokenize(tokenizer, ids.data(), ids.size(),
                                            skip_special, &text, &size)));
  const Handle<char> owned(text);
  return std::string(text, size);
}

json::Value Ids(const std::vector<int32_t>& ids) {
  json::Value list = json::Value::Array();
  for (const int32_t id : ids) list.Add(int64_t{id});
  return list;
}

// The strings of a JSON list in a file.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  const auto list = json::Parse(text);
  DS_RETURN_IF_ERROR(Annotate(list.status(), path));
  if (!list->is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", json::KindName(list->kind()),
                     "; a list of strings is needed"));
  }
  std::vector<std::string> texts;
  for (const json::Value& item : list->items()) {
    if (!item.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": item ", texts.size(), " is ",
                       json::KindName(item.kind()), "; a string is needed"));
    }
    texts.push_back(item.as_string());
  }
  return texts;
}

}  // namespace

absl::Status Tokenize(const DsrunOptions& options) {
  std::vector<std::string> texts = options.texts_given;
  if (!options.texts.empty()) {
    DS_ASSIGN_OR_RETURN(texts, ReadTexts(options.texts));
  }
  ds_tokenizer* opened = nullptr;
  DS_RETURN_IF_ERROR(StatusOf(
      ds_open_tokenizer(options.plan.c_str(), options.tiktoken_pattern.c_str(),
                        PrintNote, nullptr, &opened)));
  const Handle<ds_tokenizer> tokenizer(opened);

  json::Value out = json::Value::Array();
  for (size_t i = 0; i < texts.size(); ++i) {
    auto encoded = Encode(opened, texts[i], 0);
    DS_RETURN_IF_ERROR(
        Annotate(encoded.status(),
                 options.texts.empty() ? "-p" : options.texts, ": item ", i));
    const std::vector<int32_t>& ids = *encoded;
    DS_ASSIGN_OR_RETURN(const auto bare,
                        Encode(opened, texts[i], DS_NO_SPECIAL));
    DS_ASSIGN_OR_RETURN(const std::string decoded,
                        Decode(opened, ids, /*skip_special=*/true));
    DS_ASSIGN_OR_RETURN(const std::string decoded_keep,
                        Decode(opened, ids, /*skip_special=*/false));
    json::Value entry = json::Value::Object();
    entry.Set("ids", Ids(ids));
    entry.Set("ids_no_special", Ids(bare));
    entry.Set("decoded", decoded);
    entry.Set("decoded_keep", decoded_keep);
    out.Add(std::move(entry));
  }
  return Print(json::Write(out) + "\n");
}

}  // namespace deepslice
