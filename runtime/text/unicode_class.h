// Classes of code points as the components of tokenizer files take them, the
// same whatever Unicode the libraries of this machine know.
#ifndef DEEPSLICE_RUNTIME_TEXT_UNICODE_CLASS_H_
#define DEEPSLICE_RUNTIME_TEXT_UNICODE_CLASS_H_

#include <cstdint>

namespace deepslice {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

// The White_Space property. Not PCRE2's \s: that has U+180E as well.
inline constexpr CodePointRange kWhiteSpace[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
    {0x205F, 0x205F}, {0x3000, 0x3000}};

// General categories of Unicode 16, in utf8proc's order.
enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo
};
Category GeneralCategory(uint32_t cp);

// What a code point is, as bits.
enum CharBits : uint16_t {
  kCharUpper = 1 << 0,        // Lu, Lt
  kCharLower = 1 << 1,        // Ll
  kCharOtherLetter = 1 << 2,  // Lm, Lo
  kCharLetter = kCharUpper | kCharLower | kCharOtherLetter,
  kCharMark = 1 << 3,         // M
  kCharNumber = 1 << 4,       // N
  kCharSpace = 1 << 5,        // White_Space
  kCharWord = 1 << 6,         // \w of Rust's regular expressions
  kCharPunctuation = 1 << 7,  // for Punctuation and BertPreTokenizer
  kCharNumeric = 1 << 8,      // for Digits
  kCharAccent = 1 << 9,       // removed by StripAccents
  kCharControl = 1 << 10,     // removed by BertNormalizer's clean_text
  kCharNonspacing = 1 << 11,  // removed by its strip_accents
  kCharIdeograph = 1 << 12,   // set apart by its handle_chinese_chars
  kCharCategoryPs = 1 << 13,  // P, S
};

// A table of them. Made at the first call, then free of locks.
class CharTable {
 public:
  static const CharTable& Get();
  uint16_t operator[](uint32_t cp) const {
    return cp < kSize ? bits_[cp] : Compute(cp);
  }

 private:
  CharTable();
  static uint16_t Compute(uint32_t cp);
  // Beyond it lie few characters and large areas of one class.
  static constexpr uint32_t kSize = 0x33480;
  uint16_t bits_[kSize];
};

bool IsWhiteSpace(uint32_t cp);
inline bool IsNumeric(uint32_t cp) {
  return CharTable::Get()[cp] & kCharNumeric;
}
// What stands inside a word for `single_word` of added tokens: Alphabetic,
// Mark, Nd, Pc, Join_Control (Unicode Technical Standard 18, annex C).
inline bool IsWordCharacter(uint32_t cp) {
  return CharTable::Get()[cp] & kCharWord;
}
// Number of the script that UnicodeScripts sees; 0: goes with any. Han,
// Hiragana and Katakana are one.
uint8_t ScriptOf(uint32_t cp);
// One code point to one; U+0130, the only one that becomes two, stays.
uint32_t ToLower(uint32_t cp);
// Whether the normalizers leave it whole although utf8proc decomposes it.
bool IsUndecomposed(uint32_t cp);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_UNICODE_CLASS_H_
