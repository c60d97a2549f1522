// dsrun tokenize: what a tokenizer makes of a list of texts.
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/plan.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_files.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

// The serialised tables of a plan's tokenizer, or of a tokenizer's own files.
absl::StatusOr<std::string> ReadTables(const DsrunOptions& options) {
  const std::string& source = options.plan;
  if (DirectoryExists(source) && FindTokenizerFile(source).empty()) {
    DS_ASSIGN_OR_RETURN(const Plan plan,
                        Plan::Load(source, 0, {.check_weights = false}));
    const auto* bytes = plan.fb().tokenizer();
    if (bytes == nullptr || bytes->size() == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(source,
                       ": the plan holds no tokenizer; compile it from "
                       "a checkpoint that has one"));
    }
    return std::string(bytes->begin(), bytes->end());
  }
  DS_ASSIGN_OR_RETURN(
      TokenizerTables tables,
      ReadTokenizerFiles(source, {.pattern = options.tiktoken_pattern}));
  for (const std::string& note : tables.notes) {
    std::cerr << "note: " << note << "\n";
  }
  return std::move(tables.bytes);
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
  DS_ASSIGN_OR_RETURN(const std::string tables, ReadTables(options));
  DS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(tables));

  json::Value out = json::Value::Array();
  for (size_t i = 0; i < texts->items().size(); ++i) {
    const json::Value& item = texts->items()[i];
    if (!item.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.texts, ": item ", i, " is ",
                       json::KindName(item.kind()), "; a string is needed"));
    }
    auto encoded = tokenizer->Encode(item.as_string());
    DS_RETURN_IF_ERROR(Annotate(encoded.status(), options.texts, ": item ", i));
    const std::vector<int32_t>& ids = *encoded;
    DS_ASSIGN_OR_RETURN(
        const auto bare,
        tokenizer->Encode(item.as_string(), {.add_special = false}));
    DS_ASSIGN_OR_RETURN(const std::string decoded,
                        tokenizer->Decode(ids, /*skip_special=*/true));
    DS_ASSIGN_OR_RETURN(const std::string decoded_keep,
                        tokenizer->Decode(ids, /*skip_special=*/false));
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
