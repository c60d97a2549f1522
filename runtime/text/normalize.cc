// Normalisation over utf8proc's decomposition data.
#include "runtime/text/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

int CombiningClass(utf8proc_int32_t cp) {
  return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

// Marks between two starters, in the order of their classes. Not utf8proc's
// own ordering: that is quadratic in the length of a run of marks, and the
// text comes from users.
void OrderMarks(std::vector<utf8proc_int32_t>* cps) {
  size_t i = 0;
  while (i < cps->size()) {
    if (CombiningClass((*cps)[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < cps->size() && CombiningClass((*cps)[end]) != 0) ++end;
    std::stable_sort(cps->begin() + i, cps->begin() + end,
                     [](utf8proc_int32_t a, utf8proc_int32_t b) {
                       return CombiningClass(a) < CombiningClass(b);
                     });
    i = end;
  }
}

}  // namespace

std::string NormalizeUnicode(absl::string_view text, NormalizerKind kind) {
  const bool compat =
      kind == NormalizerKind::kNfkc || kind == NormalizerKind::kNfkd;
  const bool compose =
      kind == NormalizerKind::kNfc || kind == NormalizerKind::kNfkc;
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) < 0x80;
  });
  if (ascii) return std::string(text);
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> cps;
  cps.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    pos += c.size;
    if (c.value < 0x80) {
      cps.push_back(static_cast<utf8proc_int32_t>(c.value));
      continue;
    }
    // 18: the longest decomposition, of U+FDFA.
    utf8proc_int32_t buffer[32];
    int boundclass = 0;
    const auto n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), buffer,
                                32, options, &boundclass);
    if (n <= 0 || n > 32) {
      cps.push_back(static_cast<utf8proc_int32_t>(c.value));
    } else {
      cps.insert(cps.end(), buffer, buffer + n);
    }
  }
  OrderMarks(&cps);
  if (compose) {
    const auto n = utf8proc_normalize_utf32(
        cps.data(), static_cast<utf8proc_ssize_t>(cps.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (n >= 0) cps.resize(static_cast<size_t>(n));
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_int32_t cp : cps) AppendUtf8(static_cast<uint32_t>(cp), &out);
  return out;
}

}  // namespace deepslice
