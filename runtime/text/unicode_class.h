// Classes of code points that pre-tokenisers and added tokens ask for, spelt
// out where regular expression engines disagree.
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

bool IsWhiteSpace(uint32_t cp);

// General category Nd, Nl or No.
bool IsNumeric(uint32_t cp);

// What stands inside a word for `single_word` of added tokens: Alphabetic,
// Mark, Nd, Pc, Join_Control (Unicode Technical Standard 18, annex C).
bool IsWordCharacter(uint32_t cp);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_UNICODE_CLASS_H_
