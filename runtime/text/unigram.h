// The most probable cut of a pre-token into tokens with scores.
#ifndef DEEPSLICE_RUNTIME_TEXT_UNIGRAM_H_
#define DEEPSLICE_RUNTIME_TEXT_UNIGRAM_H_

#include <vector>

#include "runtime/text/byte_trie.h"
#include "runtime/text/token_model.h"

namespace deepslice {

class Unigram final : public TokenModel {
 public:
  Unigram(const TokenizerSpec& spec, const TokenIndex& index, bool raw_bytes);

  absl::Status Encode(absl::string_view word, Scratch* scratch,
                      std::vector<int32_t>* out) const override;

 private:
  // The best way to every character border of `word`, in scratch->path.
  void FindPath(absl::string_view word, Scratch* scratch) const;
  absl::Status Emit(absl::string_view text, int32_t id,
                    std::vector<int32_t>* out) const;
  double ScoreOf(int32_t id, size_t bytes) const;

  const TokenizerSpec& spec_;
  const TokenIndex& index_;
  const bool raw_bytes_;
  ByteTrie tokens_;
  std::vector<int32_t> fallback_ids_;
  double unknown_score_ = 0;
  float max_score_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_UNIGRAM_H_
