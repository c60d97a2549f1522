// The normalizer steps of a tokenizer, in order.
#ifndef DEEPSLICE_RUNTIME_TEXT_NORMALIZER_H_
#define DEEPSLICE_RUNTIME_TEXT_NORMALIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/byte_trie.h"
#include "runtime/text/charsmap.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/text_allowance.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Immutable, thread-safe.
class Normalizer {
 public:
  // A text on its way through the steps.
  struct Text {
    absl::string_view view;  // of the caller's text or of `buffer`
    std::string buffer;
    std::string next;  // where a step writes
    // Whether the text starts where the whole input does; false too once a
    // step has dropped its first character.
    bool at_start = false;
    // Of the call that this text is a part of; null: of this text alone.
    TextAllowance* allowance = nullptr;
  };

  // InvalidArgument or Unimplemented for a pattern or map that can't be used.
  // `spec` must outlive it.
  static absl::StatusOr<Normalizer> Create(const TokenizerSpec& spec);

  bool empty() const { return steps_.empty(); }

  // `text->view` is valid UTF-8, and stays so. ResourceExhausted when a
  // pattern backtracks without bound or the text grows beyond its allowance or
  // 1 GiB.
  absl::Status Run(Text* text) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::shared_ptr<const Regex> regex;
    std::shared_ptr<const Charsmap> map;
  };
  absl::Status RunWithin(TextAllowance* allowance, Text* text) const;
  // Each writes text->next, or returns false and leaves the text as it is. They
  // write little more than they may.
  static absl::StatusOr<bool> Replace(const Step& step,
                                      TextAllowance* allowance, Text* text);
  static bool ApplyCharsmap(const Step& step, uint64_t most, Text* text);
  bool SentencePiece(const Step& step, uint64_t most, Text* text) const;

  std::vector<Step> steps_;
  // sentencepiece leaves symbols that a user defined as they are.
  std::shared_ptr<const ByteTrie> user_defined_;
};

// The added tokens' texts as they are to be found, in the order of spec.added:
// normalised where a token is. ResourceExhausted when that takes too much.
absl::StatusOr<std::vector<std::string>> AddedTokenTexts(
    const TokenizerSpec& spec, const Normalizer& normalizer);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_NORMALIZER_H_
