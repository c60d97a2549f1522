// Normalisation over utf8proc's decomposition data, of no more text than may
// change.
#include "runtime/text/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/text/unicode_class.h"
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

void Decompose(uint32_t cp, bool compat, std::vector<utf8proc_int32_t>* out) {
  const auto c = static_cast<utf8proc_int32_t>(cp);
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  // 18: the longest decomposition, of U+FDFA.
  utf8proc_int32_t buffer[32];
  int boundclass = 0;
  const auto n =
      cp < 0x80 || IsUndecomposed(cp)
          ? 0
          : utf8proc_decompose_char(c, buffer, 32, options, &boundclass);
  if (n <= 0 || n > 32) {
    out->push_back(c);
  } else {
    out->insert(out->end(), buffer, buffer + n);
  }
}

struct Form {
  bool compat;
  bool compose;
};
Form FormOf(NormalizerKind kind) {
  return {kind == NormalizerKind::kNfkc || kind == NormalizerKind::kNfkd,
          kind == NormalizerKind::kNfc || kind == NormalizerKind::kNfkc};
}

void Normalize(std::vector<utf8proc_int32_t>* cps, Form form) {
  OrderMarks(cps);
  if (!form.compose) return;
  const auto n = utf8proc_normalize_utf32(
      cps->data(), static_cast<utf8proc_ssize_t>(cps->size()),
      static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (n >= 0) cps->resize(static_cast<size_t>(n));
}

// For every code point and form, whether it stays as it is and no code point
// after anything but a mark or a jamo could change it.
class InertTable {
 public:
  static const InertTable& Get() {
    static const InertTable* table = new InertTable();
    return *table;
  }
  bool Inert(uint32_t cp, NormalizerKind kind) const {
    const uint8_t bits = cp < kSize ? bits_[cp] : 0;
    return bits >> static_cast<int>(kind) & 1;
  }

 private:
  static constexpr uint32_t kSize = 0x33480;
  uint8_t bits_[kSize];

  InertTable() {
    const CharTable& chars = CharTable::Get();
    std::vector<utf8proc_int32_t> cps;
    for (uint32_t cp = 0; cp < kSize; ++cp) {
      bits_[cp] = 0;
      const auto* p = utf8proc_get_property(static_cast<utf8proc_int32_t>(cp));
      if ((chars[cp] & kCharMark) || (cp >= 0x1100 && cp <= 0x11FF) ||
          p->combining_class != 0) {
        continue;
      }
      const bool hangul = cp >= 0xAC00 && cp <= 0xD7A3;
      const bool plain =
          !hangul && (cp < 0xA0 || p->decomp_seqindex == UINT16_MAX);
      for (const NormalizerKind kind :
           {NormalizerKind::kNfc, NormalizerKind::kNfd, NormalizerKind::kNfkc,
            NormalizerKind::kNfkd}) {
        bool inert = plain;
        if (!plain) {
          cps.clear();
          const Form form = FormOf(kind);
          Decompose(cp, form.compat, &cps);
          Normalize(&cps, form);
          inert = cps.size() == 1 && cps[0] == static_cast<int32_t>(cp);
        }
        if (inert) bits_[cp] |= 1 << static_cast<int>(kind);
      }
    }
  }
};

}  // namespace

bool NormalizeUnicode(absl::string_view text, NormalizerKind kind,
                      std::string* out) {
  const InertTable& table = InertTable::Get();
  const Form form = FormOf(kind);
  std::vector<utf8proc_int32_t> cps;
  size_t written = 0;  // text before it is in `result`
  size_t last = 0;     // where the code point before `pos` starts
  std::string result;
  for (size_t pos = 0; pos < text.size();) {
    if (static_cast<uint8_t>(text[pos]) < 0x80) {
      last = pos++;
      continue;
    }
    CodePoint c = DecodeUtf8(text, pos);
    if (table.Inert(c.value, kind)) {
      last = pos;
      pos += c.size;
      continue;
    }
    // From the starter before it to where nothing can change any more.
    const size_t begin = std::max(last, written);
    result.append(text.data() + written, begin - written);
    cps.clear();
    for (size_t i = begin; i < pos;) {
      const CodePoint before = DecodeUtf8(text, i);
      Decompose(before.value, form.compat, &cps);
      i += before.size;
    }
    while (true) {
      Decompose(c.value, form.compat, &cps);
      last = pos;
      pos += c.size;
      if (pos >= text.size()) break;
      c = DecodeUtf8(text, pos);
      if (table.Inert(c.value, kind)) break;
    }
    Normalize(&cps, form);
    for (utf8proc_int32_t cp : cps) {
      AppendUtf8(static_cast<uint32_t>(cp), &result);
    }
    written = last = pos;
  }
  if (written == 0) return false;
  result.append(text.data() + written, text.size() - written);
  if (result == text) return false;
  *out = std::move(result);
  return true;
}

}  // namespace deepslice
