// Components of a tokenizer.json around the model.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_STEPS_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_STEPS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/text/json_at.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Each reads one component, which may be null, into `spec`. An unknown type is
// Unimplemented with its path.
absl::Status ReadNormalizer(const JsonAt& at, TokenizerSpec* spec);
absl::Status ReadPreTokenizer(const JsonAt& at, TokenizerSpec* spec);
absl::Status ReadPostProcessor(const JsonAt& at, TokenizerSpec* spec);
absl::Status ReadDecoder(const JsonAt& at, TokenizerSpec* spec);

// Of a Metaspace, which may be a pre-tokenizer or a decoder.
absl::StatusOr<PrependScheme> ReadPrependScheme(const JsonAt& at);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_STEPS_H_
