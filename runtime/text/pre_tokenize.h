// Cuts a text into the pre-tokens that the model sees one at a time.
#ifndef DEEPSLICE_RUNTIME_TEXT_PRE_TOKENIZE_H_
#define DEEPSLICE_RUNTIME_TEXT_PRE_TOKENIZE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/split_scanner.h"
#include "runtime/text/text_allowance.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// A text and its cut; pieces are in order, never empty, and may leave out text.
struct PreTokens {
  struct Piece {
    uint32_t begin;
    uint32_t end;
  };
  // The text that pieces point into: the caller's, or `buffer` once a step has
  // rewritten it.
  absl::string_view text;
  std::string buffer;
  std::vector<Piece> pieces;
  // Whether text[0] is where the whole input starts.
  bool at_start = false;
  // Of the call that this text is a part of; null: of this text alone.
  TextAllowance* allowance = nullptr;
};

// The steps of a spec, with their patterns compiled. Immutable, thread-safe.
class PreTokenizer {
 public:
  // InvalidArgument or Unimplemented for a pattern that can't be used.
  static absl::StatusOr<PreTokenizer> Create(
      const std::vector<PreTokenizerStep>& steps);

  bool empty() const { return steps_.empty(); }
  // Whether pieces hold raw bytes, each to be read as a character of the byte
  // alphabet: the last step is ByteLevel. Elsewhere that step rewrites text.
  bool raw_bytes() const { return raw_bytes_; }

  // Cuts out->text, which is valid UTF-8, into out->pieces. ResourceExhausted
  // when a pattern backtracks without bound or steps make too much of the text.
  absl::Status Run(PreTokens* out) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::shared_ptr<const Regex> regex;  // null when the step has none
    SplitScanner scanner = nullptr;      // matches as the regex, faster
  };
  // Cuts the pieces where the step's matches begin and end.
  static absl::Status Cut(const Step& step, TextAllowance* allowance,
                          PreTokens* out);
  absl::Status RunWithin(TextAllowance* allowance, PreTokens* out) const;

  std::vector<Step> steps_;
  bool raw_bytes_ = false;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_PRE_TOKENIZE_H_
