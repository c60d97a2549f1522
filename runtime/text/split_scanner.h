// Hand-written matchers of the patterns that most models cut their text by.
#ifndef DEEPSLICE_RUNTIME_TEXT_SPLIT_SCANNER_H_
#define DEEPSLICE_RUNTIME_TEXT_SPLIT_SCANNER_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "runtime/text/unicode_class.h"

namespace deepslice {

// The end of the match that starts at text[pos], which is in valid UTF-8 at a
// character's start. These patterns match everywhere: the end is after `pos`.
using SplitScanner = size_t (*)(const CharTable& chars, absl::string_view text,
                                size_t pos);

// The scanner for a pattern in Oniguruma's syntax, or null when it is not one
// of the known ones, letter by letter.
SplitScanner FindSplitScanner(absl::string_view pattern);

// The pattern of ByteLevel, GPT-2's: words, numbers, other characters and white
// space.
extern const absl::string_view kGpt2Pattern;
extern const absl::string_view kLlama3Pattern;  // cl100k's as published first
extern const absl::string_view kQwen2Pattern;
extern const absl::string_view kCl100kPattern;  // with possessive repeats
extern const absl::string_view kO200kPattern;

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_SPLIT_SCANNER_H_
