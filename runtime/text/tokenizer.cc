// Makes a tokenizer of serialised tables, and decodes streams by it.
#include "runtime/text/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/table_tokenizer.h"
#include "runtime/text/tokenizer_spec.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    absl::string_view bytes) {
  DS_ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizer(bytes));
  auto tokenizer = TableTokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) {
    // Readers refuse such a pattern, so the bytes changed since.
    return absl::DataLossError(
        absl::StrCat("tokenizer tables: ", tokenizer.status().message(),
                     "; compile the plan again"));
  }
  return tokenizer;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : decoding_(tokenizer.StartDecoding(skip_special)) {}

absl::StatusOr<std::string> StreamDecoder::Add(int32_t id) {
  std::string out;
  DS_RETURN_IF_ERROR(decoding_->Add(id, &out));
  return out;
}

absl::StatusOr<std::string> StreamDecoder::Finish() {
  std::string out;
  DS_RETURN_IF_ERROR(decoding_->Finish(&out));
  return out;
}

}  // namespace deepslice
