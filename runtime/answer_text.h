// The text of an answer as its tokens come: valid UTF-8 at every moment, up to
// the first stop string.
#ifndef DEEPSLICE_RUNTIME_ANSWER_TEXT_H_
#define DEEPSLICE_RUNTIME_ANSWER_TEXT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/stop_strings.h"
#include "runtime/text/tokenizer.h"

namespace deepslice {

class AnswerText {
 public:
  // `before`: the tokens in front of the answer, on which the text of its first
  // one may depend (a leading space, a split code point). The tokenizer must
  // outlive it.
  static absl::StatusOr<std::unique_ptr<AnswerText>> Make(
      const Tokenizer* tokenizer, absl::Span<const int32_t> before,
      std::vector<std::string> stops);

  // Appends to *out what `id` adds to the text and can be given on; special
  // tokens have none. True when a stop string was found: the text ends in front
  // of it. While not `armed` none is looked for.
  absl::StatusOr<bool> Add(int32_t id, bool armed, std::string* out);
  // At the end: appends what was held back, U+FFFD for half a code point.
  // Nothing behind a stop string.
  absl::Status Finish(std::string* out);
  // The stop string that was found; nullptr: none.
  const std::string* stopped_by() const {
    return found_ < 0 ? nullptr : &stops_[found_];
  }

 private:
  AnswerText(const Tokenizer* tokenizer, std::vector<std::string> stops)
      : tokenizer_(*tokenizer),
        stops_(std::move(stops)),
        decoder_(*tokenizer, /*skip_special=*/true),
        matcher_(stops_) {}
  absl::StatusOr<std::string> Decode(int32_t id);

  const Tokenizer& tokenizer_;
  const std::vector<std::string> stops_;  // none empty
  StreamDecoder decoder_;
  StopStrings matcher_;
  int found_ = -1;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_ANSWER_TEXT_H_
