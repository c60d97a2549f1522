// What a tokenizer is, as plain data: filled by the readers, written into the
// plan, read back by Tokenizer::Load.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_TABLES_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_TABLES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/base/json.h"

namespace deepslice {

// `bytes` is the serialised form: deterministic, little-endian, versioned by
// its first bytes, and self-contained (vocabulary, merges, patterns, added
// tokens, normaliser, decoder and post-processor steps).
struct TokenizerTables {
  std::string bytes;
  // What a reader should know, e.g. ids of the vocabulary without a token.
  std::vector<std::string> notes;
};

// Reads a tokenizer.json text. An unknown component is Unimplemented by name
// and JSON path; damage is InvalidArgument. `tokenizer_config` may be null; it
// gives add_bos_token and the named special tokens.
absl::StatusOr<TokenizerTables> ReadTokenizerJson(
    absl::string_view text, const json::Value& tokenizer_config);

// Reads a sentencepiece model. Where `tokenizer_config` names a class or
// `model_type` of config.json stands for one, as that class of the published
// library; else as sentencepiece itself, which adds no tokens and reads none in
// a text. Unimplemented for a class that renumbers ids, words and characters.
absl::StatusOr<TokenizerTables> ReadTokenizerSentencePiece(
    absl::string_view bytes, const json::Value& tokenizer_config,
    absl::string_view model_type);

// Reads a file of ranks, one "base64 rank" a line, whose text is cut by the
// pattern of `encoding`: gpt2, cl100k_base, llama3, ... Special tokens are
// those of tokenizer_config's added_tokens_decoder, else the encoding's own.
absl::StatusOr<TokenizerTables> ReadTokenizerRanks(
    absl::string_view text, absl::string_view encoding,
    const json::Value& tokenizer_config);

// Reads GGUF's tokenizer.ggml.* keys from `metadata` (key -> value as an
// object): vocabularies "llama", "gpt2" with the pre-tokenizers known by name,
// "bert", "t5" and "rwkv"; others are Unimplemented by name. "none" has no
// vocabulary: no bytes, and a note.
absl::StatusOr<TokenizerTables> ReadTokenizerGguf(const json::Value& metadata);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_TABLES_H_
