// The tokenizer of a checkpoint, as the plan will hold it.
#ifndef DEEPSLICE_COMPILER_TOKENIZER_SOURCE_H_
#define DEEPSLICE_COMPILER_TOKENIZER_SOURCE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "runtime/text/tokenizer_tables.h"

namespace deepslice {

// Reads it from the checkpoint's tokenizer file or its GGUF metadata, with
// vectors for the self-test; empty when there is none. A note tells when the
// vocabulary is larger than the model's `vocab_rows`. `pattern`: see
// TokenizerFileOptions.
absl::StatusOr<TokenizerTables> ReadTokenizer(const Checkpoint& checkpoint,
                                              absl::string_view pattern,
                                              int64_t vocab_rows);

// The tokens that the checkpoint's tokenizer has; 0 when there is none.
absl::StatusOr<int64_t> TokenizerSize(const Checkpoint& checkpoint,
                                      absl::string_view pattern);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_TOKENIZER_SOURCE_H_
