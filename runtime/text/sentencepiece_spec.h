// A sentencepiece vocabulary as a tokenizer spec; it may come from a model file
// or from GGUF.
#ifndef DEEPSLICE_RUNTIME_TEXT_SENTENCEPIECE_SPEC_H_
#define DEEPSLICE_RUNTIME_TEXT_SENTENCEPIECE_SPEC_H_

#include "absl/status/status.h"
#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// How control tokens in a text are read.
enum class ControlTokens {
  kText,   // as sentencepiece: never
  kToken,  // as the published tokenizers: wherever they stand
};

// Adds the pieces to the builder, which may then get more tokens.
absl::Status AddPieces(const SentencePieceModel& model, ControlTokens control,
                       TokenizerBuilder* builder);

// The model, normalizer and decoder of the spec, after builder->Finish. The
// decoder is sentencepiece's own for kText, else the published one.
// Unimplemented for models of words or characters and for denormalizers.
absl::Status FillSentencePieceSpec(const SentencePieceModel& model,
                                   ControlTokens control, TokenizerSpec* spec);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_SENTENCEPIECE_SPEC_H_
