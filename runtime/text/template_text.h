// Python's string operations over texts that remember who wrote each byte.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_TEXT_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_TEXT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/text/template_value.h"

namespace deepslice {

// str.isspace of one code point: White_Space and four separators.
bool IsPythonSpace(uint32_t cp);

// \w of Python's re for one code point: alphanumeric, or an underscore.
bool IsPythonWord(uint32_t cp);

// text.find(part, from) and text.rfind(part), in linear time: std's are
// quadratic for texts and parts that are nearly the same over and over.
size_t FindPart(absl::string_view text, absl::string_view part, size_t from);
size_t FindLastPart(absl::string_view text, absl::string_view part);

// Takes white space, or the code points of `chars`, off the ends.
MarkedText StripText(const MarkedText& s, bool left, bool right,
                     std::optional<absl::string_view> chars = std::nullopt);

// Bytes up to the space: at least as many as the ASCII borders of words or
// lines, so a bound on the parts of a split that is known before it is made.
size_t CountControlAndSpace(const MarkedText& s);

// str.split, or str.rsplit; no separator: runs of white space. `most` < 0: no
// limit. The separator is not empty.
std::vector<MarkedText> SplitText(const MarkedText& s,
                                  std::optional<absl::string_view> separator,
                                  int64_t most, bool from_right);
// str.splitlines.
std::vector<MarkedText> SplitTextLines(const MarkedText& s,
                                       bool keep_ends = false);

// str.replace; `count` < 0: all.
MarkedText ReplaceText(const MarkedText& s, absl::string_view from,
                       const MarkedText& to, int64_t count);

enum class TextCase {
  kUpper,
  kLower,
  kCapitalize,
  kTitle,
  kJinjaTitle,
  kSwap,
  kFold
};
// Full case mapping: a code point may become several.
MarkedText ChangeCase(const MarkedText& s, TextCase to);

// str.isalpha and kin; nullopt for other names.
std::optional<bool> TextPredicate(absl::string_view text,
                                  absl::string_view name);

// What is not ASCII as \xhh, \uhhhh or \Uhhhhhhhh.
MarkedText AsciiText(const MarkedText& s);

// Positions that [start:stop:step] selects of `size` things; step is not 0.
std::vector<int64_t> SliceIndices(int64_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> stop, int64_t step);

// Code points of s as texts of their own.
std::vector<MarkedText> TextCharacters(const MarkedText& s);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_TEXT_H_
