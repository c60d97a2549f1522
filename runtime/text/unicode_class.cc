// Classes of code points: utf8proc's categories, corrected by our tables.
#include "runtime/text/unicode_class.h"

#include <utf8proc.h>

#include <algorithm>

#include "runtime/text/unicode_tables.h"

namespace deepslice {
namespace {

namespace tables = unicode_tables;

// The range of an ascending table that holds `cp`, or null.
template <typename Range>
const Range* FindRange(const Range* table, size_t count, uint32_t cp) {
  const Range* end = table + count;
  const Range* it = std::lower_bound(
      table, end, cp, [](const Range& r, uint32_t c) { return r.last < c; });
  return it != end && it->first <= cp ? it : nullptr;
}

template <typename Range>
bool InTable(const Range* table, size_t count, uint32_t cp) {
  return FindRange(table, count, cp) != nullptr;
}

bool IsIdeograph(uint32_t cp) {
  // The gap from 0x2B820 to 0x2B91F is the published tokenizers'.
  static constexpr CodePointRange kIdeographs[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
      {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
      {0x2F800, 0x2FA1F}};
  return cp >= 0x3400 && InTable(kIdeographs, 7, cp);
}

bool IsAsciiPunctuation(uint32_t cp) {
  return (cp >= 0x21 && cp <= 0x2F) || (cp >= 0x3A && cp <= 0x40) ||
         (cp >= 0x5B && cp <= 0x60) || (cp >= 0x7B && cp <= 0x7E);
}

// Symbols with Other_Alphabetic: circled, squared and similar letters.
bool IsAlphabeticSymbol(uint32_t cp) {
  return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
         (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

}  // namespace

Category GeneralCategory(uint32_t cp) {
  if (cp >= 0x897) {
    const tables::CategoryRange* r =
        FindRange(tables::kNewCategories, tables::kNewCategoriesCount, cp);
    if (r != nullptr) return r->category;
  }
  return static_cast<Category>(
      utf8proc_category(static_cast<utf8proc_int32_t>(cp)));
}

uint16_t CharTable::Compute(uint32_t cp) {
  uint16_t bits = 0;
  bool punctuation = false, numeric = false, control = false;
  bool nonspacing = false;
  switch (GeneralCategory(cp)) {
    case Category::kLu:
    case Category::kLt:
      bits = kCharUpper | kCharWord;
      break;
    case Category::kLl:
      bits = kCharLower | kCharWord;
      break;
    case Category::kLm:
    case Category::kLo:
      bits = kCharOtherLetter | kCharWord;
      break;
    case Category::kMn:
      nonspacing = true;
      bits = kCharMark | kCharWord;
      break;
    case Category::kMc:
    case Category::kMe:
      bits = kCharMark | kCharWord;
      break;
    case Category::kNd:
    case Category::kNl:
      numeric = true;
      bits = kCharNumber | kCharWord;
      break;
    case Category::kNo:
      numeric = true;
      bits = kCharNumber;
      break;
    case Category::kPc:
      punctuation = true;
      bits = kCharCategoryPs | kCharWord;
      break;
    case Category::kPd:
    case Category::kPs:
    case Category::kPe:
    case Category::kPi:
    case Category::kPf:
    case Category::kPo:
      punctuation = true;
      bits = kCharCategoryPs;
      break;
    case Category::kSm:
    case Category::kSc:
    case Category::kSk:
    case Category::kSo:
      bits = kCharCategoryPs;
      break;
    case Category::kCc:
    case Category::kCf:
    case Category::kCo:
      control = cp != '\t' && cp != '\n' && cp != '\r';
      break;
    default:
      break;
  }
  const auto in = [cp](const CodePointRange* table, size_t count) {
    return InTable(table, count, cp);
  };
  if (punctuation)
    punctuation = !in(tables::kNotPunctuation, tables::kNotPunctuationCount);
  if (punctuation || IsAsciiPunctuation(cp) ||
      in(tables::kOtherPunctuation, tables::kOtherPunctuationCount)) {
    bits |= kCharPunctuation;
  }
  if (numeric || in(tables::kOtherNumeric, tables::kOtherNumericCount))
    bits |= kCharNumeric;
  if ((bits & kCharMark)
          ? !in(tables::kNotAccents, tables::kNotAccentsCount)
          : in(tables::kOtherAccents, tables::kOtherAccentsCount)) {
    bits |= kCharAccent;
  }
  if (nonspacing
          ? !in(tables::kNotNonspacing, tables::kNotNonspacingCount)
          : in(tables::kOtherNonspacing, tables::kOtherNonspacingCount)) {
    bits |= kCharNonspacing;
  }
  if ((control && !in(tables::kNotControl, tables::kNotControlCount)) ||
      cp == 0xFFFD) {
    bits |= kCharControl;
  }
  if (IsWhiteSpace(cp)) bits |= kCharSpace;
  if (IsIdeograph(cp)) bits |= kCharIdeograph;
  // Join_Control.
  if (cp == 0x200C || cp == 0x200D || IsAlphabeticSymbol(cp)) {
    bits |= kCharWord;
  }
  return bits;
}

CharTable::CharTable() {
  for (uint32_t cp = 0; cp < kSize; ++cp) bits_[cp] = Compute(cp);
}

const CharTable& CharTable::Get() {
  static const CharTable* table = new CharTable();
  return *table;
}

bool IsWhiteSpace(uint32_t cp) {
  for (const CodePointRange& r : kWhiteSpace) {
    if (cp <= r.last) return cp >= r.first;
  }
  return false;
}

uint8_t ScriptOf(uint32_t cp) {
  const tables::ScriptRange* r =
      FindRange(tables::kScripts, tables::kScriptsCount, cp);
  return r == nullptr ? 0 : r->script;
}

uint32_t ToLower(uint32_t cp) {
  if (cp < 0x80) return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
  if (cp == 0x130) return cp;
  if (cp >= tables::kNewLower[0].from) {
    const tables::CodePointPair* end =
        tables::kNewLower + tables::kNewLowerCount;
    const tables::CodePointPair* it = std::lower_bound(
        tables::kNewLower, end, cp,
        [](const tables::CodePointPair& p, uint32_t c) { return p.from < c; });
    if (it != end && it->from == cp) return it->to;
  }
  return static_cast<uint32_t>(
      utf8proc_tolower(static_cast<utf8proc_int32_t>(cp)));
}

bool IsUndecomposed(uint32_t cp) {
  return cp >= 0x32FF &&
         InTable(tables::kUndecomposed, tables::kUndecomposedCount, cp);
}

}  // namespace deepslice
