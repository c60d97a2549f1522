// UTF-8 one code point at a time: what is damaged becomes U+FFFD, one for each
// maximal well-formed prefix of a sequence (the Unicode Standard, 3.9).
#ifndef DEEPSLICE_RUNTIME_TEXT_UTF8_H_
#define DEEPSLICE_RUNTIME_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace deepslice {

struct CodePoint {
  uint32_t value;  // U+FFFD when not valid
  uint32_t size;   // bytes taken, at least 1
  bool valid;
  bool truncated;  // not valid, but more bytes could have made it so
};

// The code point that starts at s[pos]; pos < s.size().
CodePoint DecodeUtf8(absl::string_view s, size_t pos);

// Start of the code point that ends at `pos` of valid text; pos > 0.
inline size_t PreviousUtf8(absl::string_view s, size_t pos) {
  do {
    --pos;
  } while (pos > 0 && (static_cast<uint8_t>(s[pos]) & 0xC0) == 0x80);
  return pos;
}

// `cp` is a scalar value; anything else is written as U+FFFD.
void AppendUtf8(uint32_t cp, std::string* out);

bool IsValidUtf8(absl::string_view s);
std::string ReplaceInvalidUtf8(absl::string_view s);

// Number of code points of valid text.
size_t Utf8Length(absl::string_view s);

// The same replacement over bytes that come in parts of any size.
class Utf8Stream {
 public:
  // Appends to `out` what is decided; an unfinished sequence is held back.
  void Add(absl::string_view bytes, std::string* out);
  // Writes what was held back as U+FFFD and starts anew.
  void Finish(std::string* out);

 private:
  std::string held_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_UTF8_H_
