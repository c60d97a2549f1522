// GGUF's tokenizer.ggml.* keys, checked, before a kind is made of them.
#ifndef DEEPSLICE_RUNTIME_TEXT_GGUF_VOCABULARY_H_
#define DEEPSLICE_RUNTIME_TEXT_GGUF_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/json.h"

namespace deepslice {

// tokenizer.ggml.token_type; sentencepiece's numbers.
enum class GgufTokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Errors are InvalidArgument and begin with the key.
class GgufVocabulary {
 public:
  struct Token {
    absl::string_view text;  // in the metadata
    GgufTokenType type = GgufTokenType::kNormal;
    double score = 0;
  };

  // `metadata` outlives it.
  static absl::StatusOr<GgufVocabulary> Read(const json::Value& metadata);

  const std::vector<Token>& tokens() const { return tokens_; }
  bool has_types() const { return has_types_; }
  bool has_scores() const { return has_scores_; }

  static std::string Key(absl::string_view name);
  static absl::Status Invalid(absl::string_view name, absl::string_view what);
  const json::Value* Get(absl::string_view name) const;
  absl::StatusOr<const json::Value*> Need(absl::string_view name,
                                          json::Kind kind) const;
  absl::StatusOr<bool> Flag(absl::string_view name, bool fallback) const;
  // An id of the vocabulary, or `fallback`; -1 for a fallback outside of it.
  absl::StatusOr<int32_t> TokenId(absl::string_view name,
                                  int32_t fallback) const;
  // precompiled_charsmap; empty when absent.
  absl::StatusOr<std::string> Charsmap() const;

  // Sets bos_id and eos_id and puts them around a text where the file, or else
  // the fallback, says so. With a missing id that the file asks for: an error.
  absl::Status PlaceBosAndEos(bool add_bos, bool add_eos,
                              TokenizerSpec* spec) const;

 private:
  explicit GgufVocabulary(const json::Value& metadata) : metadata_(&metadata) {}
  absl::Status ReadTokens();

  const json::Value* metadata_;
  std::vector<Token> tokens_;
  bool has_types_ = false;
  bool has_scores_ = false;
};

// Each fills a builder and a spec from a vocabulary of its kind.
absl::Status ReadGgufBpe(const GgufVocabulary& v, TokenizerSpec* spec,
                         std::vector<std::string>* notes);
// "llama" and "t5".
absl::Status ReadGgufPieces(const GgufVocabulary& v, bool unigram,
                            TokenizerSpec* spec);
absl::Status ReadGgufBert(const GgufVocabulary& v, TokenizerSpec* spec,
                          std::vector<std::string>* notes);
absl::Status ReadGgufRwkv(const GgufVocabulary& v, TokenizerSpec* spec);

// The normalizers and pre-tokenizers that tokenizer.ggml.pre stands for, and
// what such files do by default. Unimplemented by name for others.
struct GgufPreTokenizer {
  bool ignore_merges = false;
  bool add_bos = false;
  bool add_sep = false;
};
absl::StatusOr<GgufPreTokenizer> ReadGgufPreTokenizer(const GgufVocabulary& v,
                                                      TokenizerSpec* spec);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_GGUF_VOCABULARY_H_
