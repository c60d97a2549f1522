#include "compiler/checkpoint/untrusted_text.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace deepslice {

size_t FindBadUtf8(absl::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const unsigned char c = s[i];
    if (c < 0x80) {
      ++i;
      continue;
    }
    const size_t n = c >= 0xc2 && c < 0xe0   ? 2
                     : (c & 0xf0) == 0xe0    ? 3
                     : c >= 0xf0 && c < 0xf5 ? 4
                                             : 0;
    if (n == 0 || n > s.size() - i) return i;
    uint32_t code = c & (0x7f >> n);
    for (size_t k = 1; k < n; ++k) {
      const unsigned char d = s[i + k];
      if ((d & 0xc0) != 0x80) return i;
      code = code << 6 | (d & 0x3f);
    }
    if (n == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) {
      return i;
    }
    if (n == 4 && (code < 0x10000 || code > 0x10ffff)) return i;
    i += n;
  }
  return absl::string_view::npos;
}

std::string Quoted(absl::string_view s) {
  constexpr size_t kShown = 120;
  absl::string_view shown = s.substr(0, kShown);
  // A cut inside a sequence would show as bad bytes.
  if (shown.size() < s.size() && FindBadUtf8(s) == absl::string_view::npos) {
    shown = shown.substr(0, FindBadUtf8(shown));
  }
  return absl::StrCat("\"",
                      FindBadUtf8(shown) == absl::string_view::npos
                          ? absl::Utf8SafeCEscape(shown)
                          : absl::CEscape(shown),
                      shown.size() < s.size() ? "...\"" : "\"");
}

}  // namespace deepslice
