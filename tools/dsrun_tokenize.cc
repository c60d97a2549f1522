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

}  // namespace

absl::Status Tokenize(const DsrunOptions& options) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(options.texts, limits::kJsonFileBytes));
  auto texts = json::Parse(text);
  DS_RETURN_IF_ERROR(Annotate(texts.status(), options.texts));
  if (!texts->is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.texts, ": holds ", json::KindName(texts->kind()),
                     "; a list of strings is needed"));
  }
  ds_tokenizer* opened = nullptr;
  DS_RETURN_IF_ERROR(StatusOf(
      ds_open_tokenizer(options.plan.c_str(), options.tiktoken_pattern.c_str(),
                        PrintNote, nullptr, &opened)));
  const Handle<ds_tokenizer> tokenizer(opened);

  json::Value out = json::Value::Array();
  for (size_t i = 0; i < texts->items().size(); ++i) {
    const json::Value& item = texts->items()[i];
    if (!item.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.texts, ": item ", i, " is ",
                       json::KindName(item.kind()), "; a string is needed"));
    }
    auto encoded = Encode(opened, item.as_string(), 0);
    DS_RETURN_IF_ERROR(Annotate(encoded.status(), options.texts, ": item ", i));
    const std::vector<int32_t>& ids = *encoded;
    DS_ASSIGN_OR_RETURN(const auto bare,
                        Encode(opened, item.as_string(), DS_NO_SPECIAL));
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
