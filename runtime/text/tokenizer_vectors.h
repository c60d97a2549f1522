// Texts and their ids that travel with a tokenizer, so that the machine that
// runs it can tell whether it cuts texts as the one that compiled it.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_VECTORS_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_VECTORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_tables.h"

namespace deepslice {

inline constexpr int kTokenizerVectors = 64;

// Encodes kTokenizerVectors texts of many scripts and of the vocabulary itself
// and stores the ids in `tables->bytes`, in place of any that are there. The
// same tables give the same vectors. Texts that the tokenizer refuses (it has
// no unknown token) are left out.
absl::Status AddTokenizerVectors(TokenizerTables* tables);

// Encodes the stored texts again. `*checked` is how many there were; 0 for a
// plan that holds none. DataLoss with text and both id lists at the first that
// differs.
absl::Status CheckTokenizerVectors(absl::string_view tokenizer_bytes,
                                   int* checked);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_VECTORS_H_
