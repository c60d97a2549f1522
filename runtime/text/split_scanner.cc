// Matchers for GPT-2's, Llama-3's, Qwen2's, cl100k's and o200k's patterns; each
// follows its pattern's alternatives in their order.
#include "runtime/text/split_scanner.h"

#include "absl/strings/ascii.h"
#include "runtime/text/utf8.h"

namespace deepslice {

const absl::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";
const absl::string_view kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const absl::string_view kQwen2Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const absl::string_view kCl100kPattern =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
const absl::string_view kO200kPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|"
    "\\s+";

namespace {

// As it was published with possessive repeats first.
constexpr absl::string_view kCl100kOlder =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";

constexpr uint16_t kNotOther = kCharLetter | kCharNumber | kCharSpace;

// A place in the text with the class of the character there.
struct Cursor {
  const CharTable& chars;
  absl::string_view text;

  // Class of the character at `pos`, and its size; 0 bits and size 0 at the
  // end.
  uint16_t At(size_t pos, size_t* size) const {
    if (pos >= text.size()) {
      *size = 0;
      return 0;
    }
    const auto byte = static_cast<uint8_t>(text[pos]);
    if (byte < 0x80) {
      *size = 1;
      return chars[byte];
    }
    const CodePoint c = DecodeUtf8(text, pos);
    *size = c.size;
    return chars[c.value];
  }

  // Where the run of characters with one of `bits` that starts at `pos` ends.
  size_t SkipAny(size_t pos, uint16_t bits) const {
    size_t size;
    while ((At(pos, &size) & bits) != 0) pos += size;
    return pos;
  }
  // The same for characters with none of `bits`.
  size_t SkipNone(size_t pos, uint16_t bits) const {
    size_t size;
    while ((At(pos, &size) & bits) == 0 && size > 0) pos += size;
    return pos;
  }
  char Byte(size_t pos) const { return pos < text.size() ? text[pos] : '\0'; }
};

// The end of 's, 't, 're, 've, 'm, 'll or 'd at `pos`, or `pos`.
template <bool kAnyCase>
size_t Contraction(const Cursor& c, size_t pos) {
  if (c.Byte(pos) != '\'') return pos;
  const auto byte = [&](size_t i) {
    const char b = c.Byte(pos + i);
    return kAnyCase ? absl::ascii_tolower(static_cast<unsigned char>(b)) : b;
  };
  switch (byte(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return pos + 2;
    case 'r':
    case 'v':
      return byte(2) == 'e' ? pos + 3 : pos;
    case 'l':
      return byte(2) == 'l' ? pos + 3 : pos;
    case '\xC5':  // U+017F folds to s
      return kAnyCase && c.Byte(pos + 2) == '\xBF' ? pos + 3 : pos;
    default:
      return pos;
  }
}

bool IsNewline(char c) { return c == '\r' || c == '\n'; }

// The end of the white space at `pos`, by \s+(?!\S)|\s+: its last character is
// left to what follows, unless it is the only one.
size_t WhiteSpace(const Cursor& c, size_t pos) {
  const size_t end = c.SkipAny(pos, kCharSpace);
  if (end == c.text.size()) return end;
  const size_t last = PreviousUtf8(c.text, end);
  return last > pos ? last : end;
}

// \s*[\r\n]+ before that.
size_t WhiteSpaceOrLines(const Cursor& c, size_t pos) {
  const size_t end = c.SkipAny(pos, kCharSpace);
  for (size_t i = end; i > pos; --i) {
    if (IsNewline(c.text[i - 1])) return i;
  }
  if (end == c.text.size()) return end;
  const size_t last = PreviousUtf8(c.text, end);
  return last > pos ? last : end;
}

size_t Numbers(const Cursor& c, size_t pos, int most) {
  for (size_t size; most > 0 && (c.At(pos, &size) & kCharNumber); --most) {
    pos += size;
  }
  return pos;
}

size_t ScanGpt2(const CharTable& chars, absl::string_view text, size_t pos) {
  const Cursor c{chars, text};
  size_t size;
  uint16_t bits = c.At(pos, &size);
  if (bits & kCharLetter) return c.SkipAny(pos + size, kCharLetter);
  const size_t contraction = Contraction<false>(c, pos);
  if (contraction > pos) return contraction;
  size_t word = pos;
  if (text[pos] == ' ') {
    size_t next;
    const uint16_t after = c.At(pos + 1, &next);
    if (next > 0 && !(after & kCharSpace)) {
      ++word;
      bits = after;
      size = next;
    }
  }
  if (bits & kCharLetter) return c.SkipAny(word + size, kCharLetter);
  if (bits & kCharNumber) return c.SkipAny(word + size, kCharNumber);
  if (!(bits & kCharSpace)) return c.SkipNone(word + size, kNotOther);
  return WhiteSpace(c, pos);
}

// ` ?[^\s\p{L}\p{N}]+` and what may follow it; `pos` when it does not match.
template <bool kSlash>
size_t Others(const Cursor& c, size_t pos, uint16_t bits, size_t size) {
  size_t at = pos;
  if (c.text[pos] == ' ') {
    ++at;
    bits = c.At(at, &size);
  }
  if (size == 0 || (bits & kNotOther)) return pos;
  at = c.SkipNone(at + size, kNotOther);
  while (IsNewline(c.Byte(at)) || (kSlash && c.Byte(at) == '/')) {
    if (at >= c.text.size()) break;
    ++at;
  }
  return at;
}

// Llama-3's and its kin: how many digits go together, and whether white space
// at the end of the text is one piece, lines or not.
template <int kDigits, bool kWholeEnd>
size_t ScanLlama3(const CharTable& chars, absl::string_view text, size_t pos) {
  const Cursor c{chars, text};
  size_t size;
  const uint16_t bits = c.At(pos, &size);
  if (bits & kCharLetter) return c.SkipAny(pos + size, kCharLetter);
  if (bits & kCharNumber) return Numbers(c, pos, kDigits);
  const size_t contraction = Contraction<true>(c, pos);
  if (contraction > pos) return contraction;
  size_t next;
  if (!IsNewline(text[pos]) && (c.At(pos + size, &next) & kCharLetter)) {
    return c.SkipAny(pos + size + next, kCharLetter);
  }
  const size_t others = Others<false>(c, pos, bits, size);
  if (others > pos) return others;
  if (kWholeEnd) {
    const size_t end = c.SkipAny(pos, kCharSpace);
    if (end == text.size()) return end;
  }
  return WhiteSpaceOrLines(c, pos);
}

constexpr uint16_t kO200kUpper = kCharUpper | kCharOtherLetter | kCharMark;
constexpr uint16_t kO200kLower = kCharLower | kCharOtherLetter | kCharMark;

// [upper]*[lower]+ (with some letters in both), else, when `any_case`, upper
// alone; `pos` when there is none.
size_t CasedWord(const Cursor& c, size_t pos, bool any_case) {
  const size_t upper = c.SkipAny(pos, kO200kUpper);
  const size_t end = c.SkipAny(upper, kO200kLower);
  if (end > upper) return end;
  if (any_case) return upper;
  // Give back upper case until the last one is in both.
  for (size_t at = upper; at > pos;) {
    const size_t last = PreviousUtf8(c.text, at);
    size_t size;
    if (c.At(last, &size) & kO200kLower) return at;
    at = last;
  }
  return pos;
}

size_t ScanO200k(const CharTable& chars, absl::string_view text, size_t pos) {
  const Cursor c{chars, text};
  size_t size;
  const uint16_t bits = c.At(pos, &size);
  const bool prefix =
      !IsNewline(text[pos]) && !(bits & (kCharLetter | kCharNumber));
  for (const bool any_case : {false, true}) {
    if (prefix) {
      const size_t end = CasedWord(c, pos + size, any_case);
      if (end > pos + size) return Contraction<true>(c, end);
    }
    if (!prefix || (bits & kCharMark)) {
      const size_t end = CasedWord(c, pos, any_case);
      if (end > pos) return Contraction<true>(c, end);
    }
  }
  if (bits & kCharNumber) return Numbers(c, pos, 3);
  const size_t others = Others<true>(c, pos, bits, size);
  return others > pos ? others : WhiteSpaceOrLines(c, pos);
}

}  // namespace

SplitScanner FindSplitScanner(absl::string_view pattern) {
  if (pattern == kGpt2Pattern) return ScanGpt2;
  if (pattern == kLlama3Pattern || pattern == kCl100kOlder) {
    return ScanLlama3<3, false>;
  }
  if (pattern == kQwen2Pattern) return ScanLlama3<1, false>;
  if (pattern == kCl100kPattern) return ScanLlama3<3, true>;
  if (pattern == kO200kPattern) return ScanO200k;
  return nullptr;
}

}  // namespace deepslice
