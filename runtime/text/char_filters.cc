// Lower case, accents, control characters: character by character.
#include "runtime/text/char_filters.h"

#include "runtime/text/normalize.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

void AppendLower(uint32_t cp, std::string* out) {
  AppendUtf8(cp == 0x130 ? 'i' : ToLower(cp), out);
  if (cp == 0x130) AppendUtf8(0x307, out);  // the only one that becomes two
}

// Calls `map(code point, out)` for every character; whether something changed.
template <typename Map>
bool MapCharacters(absl::string_view text, std::string* out, Map map) {
  out->clear();
  out->reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    map(c.value, out);
    pos += c.size;
  }
  return *out != text;
}

// One pass over ASCII for BertNormalizer.
char BertAscii(uint8_t c, const NormalizerStep& step, bool* drop) {
  if (step.Has(NormalizerStep::kBertClean)) {
    if (c == '\t' || c == '\n' || c == '\r') return ' ';
    *drop = c < 0x20 || c == 0x7F;
  }
  const bool lower =
      step.Has(NormalizerStep::kBertLowercase) && c >= 'A' && c <= 'Z';
  return static_cast<char>(lower ? c + 32 : c);
}

}  // namespace

bool Lowercase(absl::string_view text, std::string* out) {
  return MapCharacters(text, out, AppendLower);
}

bool StripAccents(absl::string_view text, std::string* out,
                  bool* first_dropped) {
  const CharTable& chars = CharTable::Get();
  *first_dropped =
      !text.empty() && (chars[DecodeUtf8(text, 0).value] & kCharAccent);
  return MapCharacters(text, out, [&](uint32_t cp, std::string* o) {
    if (!(chars[cp] & kCharAccent)) AppendUtf8(cp, o);
  });
}

bool StripSpace(absl::string_view text, bool left, bool right, std::string* out,
                bool* first_dropped) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const CodePoint c = DecodeUtf8(text, begin);
    if (!IsWhiteSpace(c.value)) break;
    begin += c.size;
  }
  while (right && end > begin) {
    const size_t last = PreviousUtf8(text, end);
    if (!IsWhiteSpace(DecodeUtf8(text, last).value)) break;
    end = last;
  }
  *first_dropped = begin > 0;
  if (begin == 0 && end == text.size()) return false;
  *out = std::string(text.substr(begin, end - begin));
  return true;
}

bool NormalizeForBert(absl::string_view text, const NormalizerStep& step,
                      std::string* out, bool* first_dropped) {
  const CharTable& chars = CharTable::Get();
  const bool clean = step.Has(NormalizerStep::kBertClean);
  const bool ideographs = step.Has(NormalizerStep::kBertIdeographs);
  const bool accents = step.Has(NormalizerStep::kBertStripAccents);
  const bool lower = step.Has(NormalizerStep::kBertLowercase);
  *first_dropped = false;
  out->clear();
  out->reserve(text.size() + 16);
  bool ascii = true;
  for (size_t pos = 0; pos < text.size();) {
    const auto byte = static_cast<uint8_t>(text[pos]);
    if (byte < 0x80) {
      bool drop = false;
      const char c = BertAscii(byte, step, &drop);
      if (!drop) out->push_back(c);
      if (drop && pos == 0) *first_dropped = true;
      ++pos;
      continue;
    }
    ascii = false;
    const CodePoint c = DecodeUtf8(text, pos);
    const uint16_t bits = chars[c.value];
    if (clean && (bits & kCharControl)) {
      if (pos == 0) *first_dropped = true;
    } else if (clean && (bits & kCharSpace)) {
      out->push_back(' ');
    } else if (ideographs && (bits & kCharIdeograph)) {
      out->push_back(' ');
      out->append(text.data() + pos, c.size);
      out->push_back(' ');
    } else {
      out->append(text.data() + pos, c.size);
    }
    pos += c.size;
  }
  if (ascii || (!accents && !lower)) return *out != text;
  std::string decomposed;
  if (!accents || !NormalizeUnicode(*out, NormalizerKind::kNfd, &decomposed)) {
    decomposed.swap(*out);
  }
  MapCharacters(decomposed, out, [&](uint32_t cp, std::string* o) {
    if (cp >= 0x80 && accents && (chars[cp] & kCharNonspacing)) return;
    if (lower) {
      AppendLower(cp, o);
    } else {
      AppendUtf8(cp, o);
    }
  });
  return *out != text;
}

bool NormalizeForNmt(absl::string_view text, std::string* out,
                     bool* first_dropped) {
  const auto dropped = [](uint32_t cp) {
    return (cp >= 0x1 && cp <= 0x8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) ||
           cp == 0x7F || cp == 0x8F || cp == 0x9F;
  };
  const auto space = [](uint32_t cp) {
    return cp == 0x9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680 ||
           (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD;
  };
  *first_dropped = !text.empty() && dropped(DecodeUtf8(text, 0).value);
  return MapCharacters(text, out, [&](uint32_t cp, std::string* o) {
    if (!dropped(cp)) AppendUtf8(space(cp) ? ' ' : cp, o);
  });
}

}  // namespace deepslice
