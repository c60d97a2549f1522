// String operations of the template language.
#include "runtime/text/template_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"
#include "runtime/text/python_case.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

template <size_t n>
bool InRanges(const CodePointRange (&ranges)[n], uint32_t cp) {
  const auto* at = std::upper_bound(
      ranges, ranges + n, cp,
      [](uint32_t c, const CodePointRange& r) { return c < r.first; });
  return at != ranges && cp <= (at - 1)->last;
}

utf8proc_category_t CategoryOf(uint32_t cp) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(cp));
}
bool IsLower(uint32_t cp) {
  return CategoryOf(cp) == UTF8PROC_CATEGORY_LL || InRanges(kOtherLower, cp);
}
bool IsUpper(uint32_t cp) {
  return CategoryOf(cp) == UTF8PROC_CATEGORY_LU || InRanges(kOtherUpper, cp);
}
bool IsCased(uint32_t cp) {
  return CategoryOf(cp) == UTF8PROC_CATEGORY_LT || IsLower(cp) || IsUpper(cp);
}
bool IsAlpha(uint32_t cp) {
  const utf8proc_category_t c = CategoryOf(cp);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimal(uint32_t cp) { return CategoryOf(cp) == UTF8PROC_CATEGORY_ND; }
bool IsDigit(uint32_t cp) { return IsDecimal(cp) || InRanges(kOtherDigit, cp); }
bool IsPythonNumeric(uint32_t cp) {
  return IsDecimal(cp) || InRanges(kOtherNumeric, cp);
}

// What a word may hold beside letters without ending there, for the final
// sigma.
bool IsCaseIgnorable(uint32_t cp) {
  switch (CategoryOf(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return cp == '\'' || cp == '.' || cp == ':' || cp == 0xB7 ||
             cp == 0x2018 || cp == 0x2019 || cp == 0x2024 || cp == 0x2027;
  }
}

// Whether the sigma at s[pos] ends a word.
bool IsFinalSigma(absl::string_view s, size_t pos) {
  size_t before = pos;
  bool after_letter = false;
  while (before > 0 && !after_letter) {
    before = PreviousUtf8(s, before);
    const uint32_t cp = DecodeUtf8(s, before).value;
    if (IsCaseIgnorable(cp)) continue;
    after_letter = IsCased(cp);
    break;
  }
  if (!after_letter) return false;
  for (size_t at = pos + 2; at < s.size();) {
    const CodePoint c = DecodeUtf8(s, at);
    at += c.size;
    if (!IsCaseIgnorable(c.value)) return !IsCased(c.value);
  }
  return true;
}

// Borders of lines that str.splitlines knows; "\r\n" is one.
bool IsLineBreak(uint32_t cp) {
  return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) ||
         cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

// Its code points, sorted.
std::vector<uint32_t> SortedCharacters(absl::string_view chars) {
  std::vector<uint32_t> out;
  for (size_t pos = 0; pos < chars.size();) {
    const CodePoint c = DecodeUtf8(chars, pos);
    out.push_back(c.value);
    pos += c.size;
  }
  std::sort(out.begin(), out.end());
  return out;
}

void AppendCodePoint(uint32_t cp, bool user, MarkedText* out) {
  std::string text;
  AppendUtf8(cp, &text);
  out->Append(text, user);
}

const SpecialCase* FindSpecial(uint32_t cp) {
  const auto* end = std::end(kSpecialCases);
  const auto* at = std::lower_bound(
      std::begin(kSpecialCases), end, cp,
      [](const SpecialCase& s, uint32_t c) { return s.code_point < c; });
  return at != end && at->code_point == cp ? at : nullptr;
}

void AppendUpper(uint32_t cp, bool title, bool user, MarkedText* out) {
  if (const SpecialCase* special = FindSpecial(cp)) {
    out->Append(title ? special->title : special->upper, user);
    return;
  }
  const auto c = static_cast<utf8proc_int32_t>(cp);
  AppendCodePoint(
      static_cast<uint32_t>(title ? utf8proc_totitle(c) : utf8proc_toupper(c)),
      user, out);
}

// The code point at s[pos] in lower case.
void AppendLower(const MarkedText& s, size_t pos, uint32_t cp,
                 MarkedText* out) {
  const bool user = s.marks[pos];
  if (cp == 0x130) {  // capital I with a dot: an i, and a dot
    out->Append("i\u0307", user);
  } else if (cp == 0x3A3 && IsFinalSigma(s.text, pos)) {
    AppendCodePoint(0x3C2, user, out);
  } else {
    AppendCodePoint(static_cast<uint32_t>(
                        utf8proc_tolower(static_cast<utf8proc_int32_t>(cp))),
                    user, out);
  }
}

void AppendFolded(uint32_t cp, bool user, MarkedText* out) {
  utf8proc_int32_t folded[8];
  int last_class = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), folded, 8,
                              UTF8PROC_CASEFOLD, &last_class);
  for (int i = 0; i < n; ++i) {
    AppendCodePoint(static_cast<uint32_t>(folded[i]), user, out);
  }
}

}  // namespace

bool IsPythonSpace(uint32_t cp) {
  return IsWhiteSpace(cp) || (cp >= 0x1C && cp <= 0x1F);
}

size_t FindPart(absl::string_view text, absl::string_view part, size_t from) {
  if (from > text.size()) return text.npos;
  if (part.empty()) return from;
  const void* found =
      memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return text.npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLastPart(absl::string_view text, absl::string_view part) {
  if (part.size() < 2) return text.rfind(part);
  const std::string backwards(text.rbegin(), text.rend());
  const std::string wanted(part.rbegin(), part.rend());
  const size_t at = FindPart(backwards, wanted, 0);
  return at == text.npos ? at : text.size() - at - part.size();
}

MarkedText StripText(const MarkedText& s, bool left, bool right,
                     std::optional<absl::string_view> chars) {
  std::vector<uint32_t> wanted;
  if (chars) wanted = SortedCharacters(*chars);
  const auto strips = [&](size_t pos) {
    const uint32_t cp = DecodeUtf8(s.text, pos).value;
    return chars ? std::binary_search(wanted.begin(), wanted.end(), cp)
                 : IsPythonSpace(cp);
  };
  size_t begin = 0, end = s.size();
  while (left && begin < end && strips(begin)) {
    begin += DecodeUtf8(s.text, begin).size;
  }
  while (right && end > begin) {
    const size_t last = PreviousUtf8(s.text, end);
    if (!strips(last)) break;
    end = last;
  }
  return s.Substr(begin, end);
}

size_t CountControlAndSpace(const MarkedText& s) {
  return static_cast<size_t>(
      std::count_if(s.text.begin(), s.text.end(),
                    [](char c) { return static_cast<uint8_t>(c) <= 0x20; }));
}

std::vector<MarkedText> SplitText(const MarkedText& s,
                                  std::optional<absl::string_view> separator,
                                  int64_t most, bool from_right) {
  std::vector<MarkedText> out;
  const absl::string_view text = s.text;
  const auto full = [&] {
    return most >= 0 && static_cast<int64_t>(out.size()) >= most;
  };
  if (separator && !from_right) {
    size_t pos = 0;
    for (size_t at;
         !full() && (at = FindPart(text, *separator, pos)) != text.npos;
         pos = at + separator->size()) {
      out.push_back(s.Substr(pos, at));
    }
    out.push_back(s.Substr(pos, text.size()));
    return out;
  }
  if (separator) {
    const std::string backwards(text.rbegin(), text.rend());
    const std::string wanted(separator->rbegin(), separator->rend());
    size_t end = text.size(), pos = 0;
    for (size_t at; !full() && (at = FindPart(backwards, wanted, pos)) !=
                                   std::string::npos;) {
      pos = at + wanted.size();
      out.push_back(s.Substr(text.size() - at, end));
      end = text.size() - pos;
    }
    out.push_back(s.Substr(0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  // By white space. The side where the words are counted from has none left
  // over. Not a substring for what is left at each word: that is quadratic.
  const MarkedText rest = StripText(s, !from_right, from_right);
  const auto space_at = [&](size_t pos) {
    return IsPythonSpace(DecodeUtf8(rest.text, pos).value);
  };
  if (from_right) {
    size_t end = rest.size();
    while (end > 0 && !full()) {
      size_t begin = end;
      while (begin > 0 && !space_at(PreviousUtf8(rest.text, begin))) {
        begin = PreviousUtf8(rest.text, begin);
      }
      out.push_back(rest.Substr(begin, end));
      for (end = begin; end > 0 && space_at(PreviousUtf8(rest.text, end));) {
        end = PreviousUtf8(rest.text, end);
      }
    }
    if (end > 0) out.push_back(rest.Substr(0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  size_t begin = 0;
  for (size_t pos = 0; pos < rest.size() && !full();) {
    if (!space_at(pos)) {
      pos += DecodeUtf8(rest.text, pos).size;
      continue;
    }
    out.push_back(rest.Substr(begin, pos));
    while (pos < rest.size() && space_at(pos)) {
      pos += DecodeUtf8(rest.text, pos).size;
    }
    begin = pos;
  }
  if (begin < rest.size()) out.push_back(rest.Substr(begin, rest.size()));
  return out;
}

std::vector<MarkedText> SplitTextLines(const MarkedText& s, bool keep_ends) {
  std::vector<MarkedText> out;
  size_t begin = 0;
  for (size_t pos = 0; pos < s.size();) {
    const CodePoint c = DecodeUtf8(s.text, pos);
    const size_t end = pos;
    pos += c.size;
    if (!IsLineBreak(c.value)) continue;
    if (c.value == '\r' && pos < s.size() && s.text[pos] == '\n') ++pos;
    out.push_back(s.Substr(begin, keep_ends ? pos : end));
    begin = pos;
  }
  if (begin < s.size()) out.push_back(s.Substr(begin, s.size()));
  return out;
}

MarkedText ReplaceText(const MarkedText& s, absl::string_view from,
                       const MarkedText& to, int64_t count) {
  MarkedText out;
  const absl::string_view text = s.text;
  size_t pos = 0;
  if (from.empty()) {  // before each code point and at the end
    while (count != 0) {
      out.Append(to);
      --count;
      if (pos >= text.size()) return out;
      const size_t size = DecodeUtf8(text, pos).size;
      out.Append(s.Substr(pos, pos + size));
      pos += size;
    }
  } else {
    for (size_t at; count != 0 && (at = FindPart(text, from, pos)) != text.npos;
         pos = at + from.size(), --count) {
      out.Append(s.Substr(pos, at));
      out.Append(to);
    }
  }
  out.Append(s.Substr(pos, text.size()));
  return out;
}

MarkedText ChangeCase(const MarkedText& s, TextCase to) {
  MarkedText out;
  bool in_word = false;  // the next letter is not the first one
  for (size_t pos = 0; pos < s.size();) {
    const CodePoint c = DecodeUtf8(s.text, pos);
    const bool user = s.marks[pos];
    const bool upper =
        to == TextCase::kUpper ||
        (to == TextCase::kSwap ? IsLower(c.value)
                               : to != TextCase::kLower && !in_word);
    if (to == TextCase::kFold) {
      AppendFolded(c.value, user, &out);
    } else if (upper) {
      AppendUpper(c.value,
                  to == TextCase::kTitle || to == TextCase::kCapitalize, user,
                  &out);
    } else if (to != TextCase::kSwap || IsUpper(c.value)) {
      AppendLower(s, pos, c.value, &out);
    } else {
      out.Append(s.Substr(pos, pos + c.size));
    }
    switch (to) {
      case TextCase::kCapitalize:
        in_word = true;
        break;
      case TextCase::kTitle:
        in_word = IsCased(c.value);
        break;
      case TextCase::kJinjaTitle:
        in_word =
            !(IsPythonSpace(c.value) || c.value == '-' || c.value == '(' ||
              c.value == '{' || c.value == '[' || c.value == '<');
        break;
      default:
        break;
    }
    pos += c.size;
  }
  return out;
}

std::optional<bool> TextPredicate(absl::string_view text,
                                  absl::string_view name) {
  bool (*each)(uint32_t) = nullptr;
  if (name == "isalpha") each = IsAlpha;
  if (name == "isdecimal") each = IsDecimal;
  if (name == "isdigit") each = IsDigit;
  if (name == "isnumeric") each = IsPythonNumeric;
  if (name == "isspace") each = IsPythonSpace;
  if (name == "isalnum") {
    each = [](uint32_t cp) { return IsAlpha(cp) || IsPythonNumeric(cp); };
  }
  if (name == "isascii") {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  }
  const bool lower = name == "islower", upper = name == "isupper";
  const bool title = name == "istitle";
  if (!each && !lower && !upper && !title) return std::nullopt;
  bool cased = false, previous = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    pos += c.size;
    if (each) {
      if (!each(c.value)) return false;
      continue;
    }
    const bool is_lower = IsLower(c.value);
    const bool is_cased = IsCased(c.value);
    const bool is_title = CategoryOf(c.value) == UTF8PROC_CATEGORY_LT;
    if (title && is_cased && previous != is_lower) return false;
    if (lower && is_cased && !is_lower) return false;
    if (upper && is_cased && (is_lower || is_title)) return false;
    cased = cased || is_cased;
    previous = is_cased;
  }
  return each ? !text.empty() : cased;
}

bool IsPythonWord(uint32_t cp) {
  return cp == '_' || IsAlpha(cp) || IsPythonNumeric(cp);
}

MarkedText AsciiText(const MarkedText& s) {
  MarkedText out;
  for (size_t pos = 0; pos < s.size();) {
    const CodePoint c = DecodeUtf8(s.text, pos);
    const bool user = s.marks[pos];
    if (c.value < 0x80) {
      out.Append(s.Substr(pos, pos + c.size));
    } else if (c.value < 0x100) {
      out.Append(absl::StrFormat("\\x%02x", c.value), user);
    } else if (c.value < 0x10000) {
      out.Append(absl::StrFormat("\\u%04x", c.value), user);
    } else {
      out.Append(absl::StrFormat("\\U%08x", c.value), user);
    }
    pos += c.size;
  }
  return out;
}

std::vector<int64_t> SliceIndices(int64_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> stop, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](std::optional<int64_t> i, int64_t fallback) {
    if (!i) return fallback;
    const int64_t from_start = *i < 0 ? (*i < -size ? low : *i + size) : *i;
    return std::clamp(from_start, low, high);
  };
  int64_t i = place(start, step > 0 ? low : high);
  const int64_t end = place(stop, step > 0 ? high : low);
  std::vector<int64_t> out;
  // The step is held below the size, so that i can't overflow.
  step = std::clamp(step, -size - 1, size + 1);
  for (; step > 0 ? i < end : i > end; i += step) out.push_back(i);
  return out;
}

std::vector<MarkedText> TextCharacters(const MarkedText& s) {
  std::vector<MarkedText> out;
  for (size_t pos = 0; pos < s.size();) {
    const size_t size = DecodeUtf8(s.text, pos).size;
    out.push_back(s.Substr(pos, pos + size));
    pos += size;
  }
  return out;
}

}  // namespace deepslice
