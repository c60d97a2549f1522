#include "compiler/checkpoint/pickle_operands.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"

namespace deepslice::pickle {
namespace {

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

// Reads `digits` hexadecimal digits at `at`; false when they are not there.
bool Hex(absl::string_view s, size_t at, size_t digits, uint32_t* out) {
  if (at > s.size() || s.size() - at < digits) return false;
  *out = 0;
  for (const char c : s.substr(at, digits)) {
    if (!absl::ascii_isxdigit(c)) return false;
    *out = *out * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return true;
}

absl::Status BadNumber(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("found ", Quoted(text), "; must be a number"));
}

}  // namespace

absl::Status Cursor::Ends() const {
  return absl::DataLossError(
      "the pickle ends inside its operand; the file is cut, copy it again");
}

absl::StatusOr<absl::string_view> Cursor::Take(uint64_t size) {
  if (size > static_cast<uint64_t>(limits::kPickleTextBytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("has ", size, " bytes; at most ", limits::kPickleTextBytes,
                     " are read"));
  }
  if (size > left()) return Ends();
  const absl::string_view out = bytes_.substr(at_, size);
  at_ += size;
  return out;
}

absl::StatusOr<absl::string_view> Cursor::Line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == absl::string_view::npos) return Ends();
  const absl::string_view out = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return out;
}

absl::StatusOr<Value*> IntOfLine(Heap& heap, absl::string_view text) {
  if (text == "00" || text == "01") return heap.Bool(text == "01");
  return LongOfLine(heap, text);
}

absl::StatusOr<Value*> LongOfLine(Heap& heap, absl::string_view text) {
  absl::string_view digits = text;
  absl::ConsumeSuffix(&digits, "L");
  int64_t v = 0;
  if (!absl::SimpleAtoi(digits, &v)) return BadNumber(text);
  return heap.Int(v);
}

absl::StatusOr<Value*> FloatOfLine(Heap& heap, absl::string_view text) {
  double v = 0;
  if (!absl::SimpleAtod(text, &v)) return BadNumber(text);
  return heap.Float(v);
}

Value* LongOfBytes(Heap& heap, absl::string_view bytes) {
  if (bytes.size() > 8) return heap.Text(Kind::kBigInt, bytes);
  // The sign bit of the highest byte fills what is missing.
  uint64_t v = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    v = v << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return heap.Int(static_cast<int64_t>(v));
}

Value* FloatOfBytes(Heap& heap, absl::string_view bytes) {
  uint64_t bits = 0;
  for (const char c : bytes) bits = bits << 8 | static_cast<uint8_t>(c);
  double v;
  std::memcpy(&v, &bits, 8);
  return heap.Float(v);
}

absl::StatusOr<Value*> StringOfLine(Heap& heap, absl::string_view text) {
  if (text.size() < 2 || text.front() != text.back() ||
      (text.front() != '\'' && text.front() != '"')) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", Quoted(text), "; must be a quoted string"));
  }
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    constexpr absl::string_view kFrom = "\\'\"abfnrtv";
    constexpr absl::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = text[++i];
    uint32_t code = 0;
    if (const size_t k = kFrom.find(c); k != absl::string_view::npos) {
      out.push_back(kTo[k]);
    } else if (c == 'x' && Hex(text, i + 1, 2, &code)) {
      out.push_back(static_cast<char>(code));
      i += 2;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("holds the escape ", Quoted(text.substr(i - 1, 2)),
                       ", which Python does not write"));
    }
  }
  return StringOfBytes(heap, heap.Copy(out));
}

absl::StatusOr<Value*> UnicodeOfLine(Heap& heap, absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t code = static_cast<uint8_t>(text[i]);
    if (text[i] == '\\' && i + 1 < text.size()) {
      const size_t digits = text[i + 1] == 'u' ? 4 : text[i + 1] == 'U' ? 8 : 0;
      if (digits > 0) {
        if (!Hex(text, i + 2, digits, &code) || code > 0x10ffff ||
            (code >= 0xd800 && code < 0xe000)) {
          return absl::InvalidArgumentError(
              absl::StrCat("holds ", Quoted(text.substr(i, digits + 2)),
                           ", which is no character"));
        }
        i += digits + 1;
      }
    }
    AppendUtf8(code, &out);
  }
  return heap.Text(Kind::kText, heap.Copy(out));
}

absl::StatusOr<Value*> TextOfBytes(Heap& heap, absl::string_view bytes) {
  if (FindBadUtf8(bytes) != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", Quoted(bytes), "; text must be UTF-8"));
  }
  return heap.Text(Kind::kText, bytes);
}

Value* StringOfBytes(Heap& heap, absl::string_view bytes) {
  const bool text = FindBadUtf8(bytes) == absl::string_view::npos;
  return heap.Text(text ? Kind::kText : Kind::kBytes, bytes);
}

absl::StatusOr<Value*> Latin1OfText(Heap& heap, absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<uint8_t>(text[i]);
    if (c < 0x80) {
      out.push_back(text[i]);
    } else if (c == 0xc2 || c == 0xc3) {
      // Two bytes of UTF-8 for U+0080 to U+00FF.
      const auto next = static_cast<uint8_t>(text[++i]);
      out.push_back(static_cast<char>((c & 3) << 6 | (next & 0x3f)));
    } else {
      return absl::InvalidArgumentError(
          "text beyond Latin-1 stands for bytes; must be below U+0100");
    }
  }
  return heap.Text(Kind::kBytes, heap.Copy(out));
}

}  // namespace deepslice::pickle
