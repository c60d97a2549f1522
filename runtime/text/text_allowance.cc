// Bounds that are linear in the text.
#include "runtime/text/text_allowance.h"

#include "absl/strings/str_cat.h"
#include "schema/base/limits.h"

namespace deepslice {

TextAllowance::TextAllowance(size_t text_bytes)
    : bytes(limits::kStepTextBytes),
      regex_steps(limits::kRegexStepsPerMatcher) {
  Add(text_bytes);
}

void TextAllowance::Add(size_t more) {
  bytes += limits::kStepTextPerByte * static_cast<uint64_t>(more);
  regex_steps += limits::kRegexStepsPerByte * static_cast<uint64_t>(more);
}

absl::Status TextAllowance::Write(uint64_t n) {
  if (n <= bytes) {
    bytes -= n;
    return absl::OkStatus();
  }
  bytes = 0;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the tokenizer's steps make more of this text than ",
      limits::kStepTextBytes, " bytes and ", limits::kStepTextPerByte,
      " for each of its bytes; use a tokenizer whose steps do not multiply "
      "text"));
}

}  // namespace deepslice
