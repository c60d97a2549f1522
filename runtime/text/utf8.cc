// UTF-8 decoding with replacement.
#include "runtime/text/utf8.h"

#include <cstring>

namespace deepslice {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// Where a run of ASCII that starts at `pos` ends.
size_t SkipAscii(absl::string_view s, size_t pos) {
  while (pos + 8 <= s.size()) {
    uint64_t word;
    std::memcpy(&word, s.data() + pos, 8);
    if (word & 0x8080808080808080u) break;
    pos += 8;
  }
  while (pos < s.size() && static_cast<uint8_t>(s[pos]) < 0x80) ++pos;
  return pos;
}

}  // namespace

CodePoint DecodeUtf8(absl::string_view s, size_t pos) {
  const uint8_t lead = s[pos];
  if (lead < 0x80) return {lead, 1, true, false};
  int more;  // continuation bytes
  uint32_t value;
  // The second byte's range excludes overlong forms, surrogates and values
  // beyond U+10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    more = 1;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    more = 2;
    value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    more = 3;
    value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {0xFFFD, 1, false, false};
  }
  for (int i = 1; i <= more; ++i) {
    if (pos + i >= s.size()) {
      return {0xFFFD, static_cast<uint32_t>(i), false, true};
    }
    const uint8_t byte = s[pos + i];
    if (byte < low || byte > high) {
      return {0xFFFD, static_cast<uint32_t>(i), false, false};
    }
    value = value << 6 | (byte & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {value, static_cast<uint32_t>(more + 1), true, false};
}

void AppendUtf8(uint32_t cp, std::string* out) {
  if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = 0xFFFD;
  if (cp < 0x80) {
    out->push_back(static_cast<char>(cp));
  } else if (cp < 0x800) {
    out->push_back(static_cast<char>(0xC0 | cp >> 6));
    out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else if (cp < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | cp >> 12));
    out->push_back(static_cast<char>(0x80 | (cp >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | cp >> 18));
    out->push_back(static_cast<char>(0x80 | (cp >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (cp >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  }
}

bool IsValidUtf8(absl::string_view s) {
  for (size_t pos = SkipAscii(s, 0); pos < s.size();) {
    const CodePoint c = DecodeUtf8(s, pos);
    if (!c.valid) return false;
    pos = SkipAscii(s, pos + c.size);
  }
  return true;
}

std::string ReplaceInvalidUtf8(absl::string_view s) {
  std::string out;
  out.reserve(s.size());
  size_t done = 0;  // written up to here
  for (size_t pos = SkipAscii(s, 0); pos < s.size();) {
    const CodePoint c = DecodeUtf8(s, pos);
    if (!c.valid) {
      out.append(s.data() + done, pos - done);
      out.append(kReplacement);
      done = pos + c.size;
    }
    pos = SkipAscii(s, pos + c.size);
  }
  out.append(s.data() + done, s.size() - done);
  return out;
}

size_t Utf8Length(absl::string_view s) {
  size_t n = 0;
  for (char c : s) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

void Utf8Stream::Add(absl::string_view bytes, std::string* out) {
  held_.append(bytes.data(), bytes.size());
  const absl::string_view all = held_;
  size_t pos = 0;
  while (pos < all.size()) {
    const CodePoint c = DecodeUtf8(all, pos);
    if (c.truncated) break;
    if (c.valid) {
      out->append(all.data() + pos, c.size);
    } else {
      out->append(kReplacement);
    }
    pos += c.size;
  }
  held_.erase(0, pos);
}

void Utf8Stream::Finish(std::string* out) {
  if (!held_.empty()) out->append(kReplacement);
  held_.clear();
}

}  // namespace deepslice
