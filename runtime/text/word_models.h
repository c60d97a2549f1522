// Models that look tokens up from the left: WordPiece, WordLevel, RWKV's.
#ifndef DEEPSLICE_RUNTIME_TEXT_WORD_MODELS_H_
#define DEEPSLICE_RUNTIME_TEXT_WORD_MODELS_H_

#include <vector>

#include "runtime/text/byte_trie.h"
#include "runtime/text/token_model.h"

namespace deepslice {

// The longest token that the word starts with, then the longest one with the
// prefix of what goes on with a word, ... One unknown token when that fails.
class WordPiece final : public TokenModel {
 public:
  WordPiece(const TokenizerSpec& spec, bool raw_bytes);
  absl::Status Encode(absl::string_view word, Scratch* scratch,
                      std::vector<int32_t>* out) const override;

 private:
  const TokenizerSpec& spec_;
  const bool raw_bytes_;
  ByteTrie first_;
  ByteTrie continuing_;  // without their prefix
};

// A word is a token or unknown.
class WordLevel final : public TokenModel {
 public:
  WordLevel(const TokenizerSpec& spec, const TokenIndex& index, bool raw_bytes)
      : spec_(spec), index_(index), raw_bytes_(raw_bytes) {}
  absl::Status Encode(absl::string_view word, Scratch* scratch,
                      std::vector<int32_t>* out) const override;

 private:
  const TokenizerSpec& spec_;
  const TokenIndex& index_;
  const bool raw_bytes_;
};

// The longest token at every place; an unknown token for each character where
// there is none.
class LongestToken final : public TokenModel {
 public:
  LongestToken(const TokenizerSpec& spec, bool raw_bytes);
  absl::Status Encode(absl::string_view word, Scratch* scratch,
                      std::vector<int32_t>* out) const override;

 private:
  const TokenizerSpec& spec_;
  const bool raw_bytes_;
  ByteTrie tokens_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_WORD_MODELS_H_
