// Chooses the reader of a checkpoint's tokenizer.
#include "compiler/tokenizer_source.h"

#include "absl/strings/str_cat.h"
#include "runtime/text/tokenizer_files.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/tokenizer_vectors.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<TokenizerTables> ReadTables(const Checkpoint& checkpoint,
                                           absl::string_view pattern) {
  if (!checkpoint.tokenizer_json_path().empty()) {
    const json::Value* type = checkpoint.config().Find("model_type");
    return ReadTokenizerFiles(
        checkpoint.tokenizer_json_path(),
        {.pattern = std::string(pattern),
         .model_type = type != nullptr && type->is_string() ? type->as_string()
                                                            : ""});
  }
  if (checkpoint.gguf_metadata().Find("tokenizer.ggml.model") != nullptr) {
    auto tables = ReadTokenizerGguf(checkpoint.gguf_metadata());
    DS_RETURN_IF_ERROR(Annotate(tables.status(), checkpoint.files()[0].path));
    return tables;
  }
  return TokenizerTables{};
}

}  // namespace

absl::StatusOr<TokenizerTables> ReadTokenizer(const Checkpoint& checkpoint,
                                              absl::string_view pattern,
                                              int64_t vocab_rows) {
  DS_ASSIGN_OR_RETURN(TokenizerTables tables, ReadTables(checkpoint, pattern));
  if (tables.bytes.empty()) return tables;
  DS_RETURN_IF_ERROR(AddTokenizerVectors(&tables));
  DS_ASSIGN_OR_RETURN(const TokenizerSpec spec, ParseTokenizer(tables.bytes));
  if (spec.vocab_size() > vocab_rows) {
    tables.notes.push_back(absl::StrCat("the tokenizer has ", spec.vocab_size(),
                                        " tokens, the model ", vocab_rows,
                                        " rows; a prompt with an id from ",
                                        vocab_rows, " on is refused"));
  }
  return tables;
}

absl::StatusOr<int64_t> TokenizerSize(const Checkpoint& checkpoint,
                                      absl::string_view pattern) {
  DS_ASSIGN_OR_RETURN(const TokenizerTables tables,
                      ReadTables(checkpoint, pattern));
  if (tables.bytes.empty()) return 0;
  DS_ASSIGN_OR_RETURN(const TokenizerSpec spec, ParseTokenizer(tables.bytes));
  return spec.vocab_size();
}

}  // namespace deepslice
