// A tokenizer over the tables of a spec: added tokens, normaliser,
// pre-tokeniser, model and the ids around a sequence; and back.
#ifndef DEEPSLICE_RUNTIME_TEXT_TABLE_TOKENIZER_H_
#define DEEPSLICE_RUNTIME_TEXT_TABLE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/decoder_chain.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/token_model.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/word_cache.h"

namespace deepslice {

class TableTokenizer final : public Tokenizer {
 public:
  // InvalidArgument or Unimplemented for a pattern that can't be used.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options) const override {
    return EncodeWithPlainRanges(text, options, {});
  }

  absl::StatusOr<std::vector<int32_t>> EncodeWithPlainRanges(
      absl::string_view text, const EncodeOptions& options,
      const std::vector<ByteRange>& plain) const override;

  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids,
                                     bool skip_special) const override;
  std::unique_ptr<Decoding> StartDecoding(bool skip_special) const override;

  int32_t vocab_size() const override { return spec_.vocab_size(); }
  int32_t bos_id() const override { return spec_.bos_id; }
  int32_t eos_id() const override { return spec_.eos_id; }
  int32_t unk_id() const override { return spec_.unk_id; }
  bool IsSpecial(int32_t id) const override {
    return InVocabulary(id) && (spec_.token_bits[id] & kTokenSpecial);
  }
  int32_t TokenToId(absl::string_view token) const override {
    const auto it = index_.find(token);
    return it == index_.end() ? -1 : it->second;
  }
  std::string IdToToken(int32_t id) const override {
    return InVocabulary(id) ? std::string(spec_.token(id)) : std::string();
  }

 private:
  friend class TableDecoding;

  // One thread's memory, kept from text to text.
  struct Work {
    Work() { normalized.allowance = pre.allowance = &allowance; }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    TextAllowance allowance;
    Normalizer::Text normalized;
    PreTokens pre;
    TokenModel::Scratch scratch;
    WordCache cache;
    std::vector<AddedSegment> raw_segments, segments;
    std::vector<int32_t> ids;
  };
  // What is trusted in a text, and how it is read.
  struct Trust {
    bool parse_special;
    const std::vector<ByteRange>& plain;
  };

  // An added token that the normaliser changes decodes to what it became, and
  // counts as special only when that is the text of a special token: as the
  // published tokenizers have it.
  struct Renamed {
    std::string text;
    bool special;
  };

  explicit TableTokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {}
  absl::Status Build();

  bool InVocabulary(int32_t id) const { return id >= 0 && id < vocab_size(); }

  std::unique_ptr<Work> TakeWork() const;
  void GiveBack(std::unique_ptr<Work> work) const;

  absl::Status EncodeClean(absl::string_view text, const Trust& trust,
                           Work* work) const;
  // A stretch of the cleaned text, at `offset`, without raw added tokens.
  absl::Status EncodeStretch(absl::string_view text, size_t offset,
                             const Trust& trust, Work* work) const;
  // Normalised text without added tokens.
  absl::Status EncodeText(absl::string_view text, bool at_start,
                          Work* work) const;
  absl::Status EncodeWord(absl::string_view word, Work* work) const;

  const TokenizerSpec spec_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  TokenIndex index_;
  std::unique_ptr<const TokenModel> model_;
  DecoderChain decoders_;
  absl::flat_hash_map<int32_t, Renamed> renamed_;
  AddedTokenMatcher raw_tokens_;         // matched in the text as it came
  AddedTokenMatcher normalized_tokens_;  // matched after the normaliser
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Work>> idle_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TABLE_TOKENIZER_H_
