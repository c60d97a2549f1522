// Which names the text form can carry.
#ifndef DEEPSLICE_IR_NAMES_H_
#define DEEPSLICE_IR_NAMES_H_

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace deepslice {

inline bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

// Names after % and @: letters, digits and _ . / -
inline bool IsName(absl::string_view s) {
  for (char c : s) {
    if (!IsNameChar(c)) return false;
  }
  return !s.empty();
}

inline bool IsIdentifierStart(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
}
inline bool IsIdentifierChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Symbols of dims, formulas and their arguments: a letter or _, then letters,
// digits and _.
inline bool IsIdentifier(absl::string_view s) {
  if (s.empty() || !IsIdentifierStart(s[0])) return false;
  for (char c : s) {
    if (!IsIdentifierChar(c)) return false;
  }
  return true;
}

}  // namespace deepslice

#endif  // DEEPSLICE_IR_NAMES_H_
