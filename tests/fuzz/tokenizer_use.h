// What every tokenizer must do, whoever made its tables.
#ifndef DEEPSLICE_TESTS_FUZZ_TOKENIZER_USE_H_
#define DEEPSLICE_TESTS_FUZZ_TOKENIZER_USE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_tables.h"

namespace deepslice {

// Encodes `text` in every way; ids are in range, their text is valid UTF-8, the
// same whether decoded at once or one after the other.
void UseTokenizer(const Tokenizer& tokenizer, absl::string_view text);

// A reader's result: what it made must load. The error, if there is one, is a
// refusal.
void UseTokenizer(const absl::StatusOr<TokenizerTables>& tables,
                  absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_FUZZ_TOKENIZER_USE_H_
