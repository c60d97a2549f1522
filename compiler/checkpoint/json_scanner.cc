#include "compiler/checkpoint/json_scanner.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code >> 6));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | code >> 12));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | code >> 18));
    out->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

}  // namespace

absl::Status JsonScanner::Error(absl::string_view what) const {
  const absl::string_view before = text_.substr(0, std::min(at_, text_.size()));
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column = newline == absl::string_view::npos
                            ? before.size() + 1
                            : before.size() - newline;
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ", column ", column, ": ", what));
}

char JsonScanner::Peek() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::string JsonScanner::Describe() {
  const char c = Peek();
  if (at_ >= text_.size()) return "the end of the text";
  if (c == '{') return "an object";
  if (c == '[') return "an array";
  if (c == '"') {
    const size_t place = at_;
    const auto s = String();
    at_ = place;
    return s.ok() ? Quoted(*s) : "a broken string";
  }
  size_t n = 0;
  while (at_ + n < text_.size() && n < 24 &&
         (IsDigit(text_[at_ + n]) || absl::ascii_isalpha(text_[at_ + n]) ||
          text_[at_ + n] == '-' || text_[at_ + n] == '+' ||
          text_[at_ + n] == '.')) {
    ++n;
  }
  if (n > 0) {
    return absl::StrCat(text_.substr(at_, n), n == 24 ? "..." : "");
  }
  if (c > 0x20 && c < 0x7f) return absl::StrFormat("'%c'", c);
  return absl::StrFormat("byte 0x%02x", static_cast<unsigned char>(c));
}

absl::Status JsonScanner::Expect(char c) {
  if (Peek() != c || at_ >= text_.size()) {
    return Error(absl::StrFormat("found %s; expected '%c'", Describe(), c));
  }
  ++at_;
  return absl::OkStatus();
}

absl::Status JsonScanner::Object(
    absl::FunctionRef<absl::Status(const std::string& key)> member) {
  if (++depth_ > limits::kJsonDepth) {
    return Error(absl::StrCat("nested deeper than ", limits::kJsonDepth));
  }
  DS_RETURN_IF_ERROR(Expect('{'));
  if (Peek() != '}') {
    while (true) {
      DS_ASSIGN_OR_RETURN(const std::string key, String());
      DS_RETURN_IF_ERROR(Expect(':'));
      DS_RETURN_IF_ERROR(member(key));
      if (Peek() != ',') break;
      ++at_;
    }
  }
  --depth_;
  return Expect('}');
}

absl::Status JsonScanner::Array(absl::FunctionRef<absl::Status()> item) {
  if (++depth_ > limits::kJsonDepth) {
    return Error(absl::StrCat("nested deeper than ", limits::kJsonDepth));
  }
  DS_RETURN_IF_ERROR(Expect('['));
  if (Peek() != ']') {
    while (true) {
      DS_RETURN_IF_ERROR(item());
      if (Peek() != ',') break;
      ++at_;
    }
  }
  --depth_;
  return Expect(']');
}

absl::StatusOr<uint32_t> JsonScanner::CodeUnit() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    if (at_ >= text_.size() || !absl::ascii_isxdigit(text_[at_])) {
      return Error("a \\u escape needs four hex digits");
    }
    const char c = text_[at_++];
    value = value << 4 | (IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

absl::StatusOr<std::string> JsonScanner::String() {
  DS_RETURN_IF_ERROR(Expect('"'));
  std::string out;
  while (true) {
    if (at_ >= text_.size()) return Error("a string without an end");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) {
      return Error(absl::StrFormat("control byte 0x%02x in a string", c));
    }
    ++at_;
    if (c == '"') return out;
    if (c != '\\') {
      out.push_back(c);
      continue;
    }
    const char e = at_ < text_.size() ? text_[at_++] : '\0';
    switch (e) {
      case '"':
      case '\\':
      case '/':
        out.push_back(e);
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'u': {
        DS_ASSIGN_OR_RETURN(uint32_t code, CodeUnit());
        if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
          at_ += 2;
          DS_ASSIGN_OR_RETURN(const uint32_t low, CodeUnit());
          if (low < 0xdc00 || low > 0xdfff) {
            return Error("a surrogate without its pair");
          }
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        if (code >= 0xd800 && code <= 0xdfff) {
          return Error("a surrogate without its pair");
        }
        AppendUtf8(code, &out);
        break;
      }
      default:
        return Error("an escape that JSON does not have");
    }
  }
}

// The number under the cursor by JSON's grammar, empty when there is none. The
// cursor stays.
absl::string_view JsonScanner::NumberText() {
  Peek();
  size_t i = at_;
  const auto digits = [&] {
    const size_t start = i;
    while (i < text_.size() && IsDigit(text_[i])) ++i;
    return i > start;
  };
  if (i < text_.size() && text_[i] == '-') ++i;
  const bool zero = i < text_.size() && text_[i] == '0';
  const size_t first = i;
  if (!digits() || (zero && i > first + 1)) return {};
  if (i < text_.size() && text_[i] == '.') {
    ++i;
    if (!digits()) return {};
  }
  if (i < text_.size() && (text_[i] == 'e' || text_[i] == 'E')) {
    ++i;
    if (i < text_.size() && (text_[i] == '+' || text_[i] == '-')) ++i;
    if (!digits()) return {};
  }
  return text_.substr(at_, i - at_);
}

absl::StatusOr<int64_t> JsonScanner::Unsigned() {
  const absl::string_view number = NumberText();
  int64_t value = 0;
  if (number.empty() ||
      number.find_first_not_of("0123456789") != absl::string_view::npos) {
    return Error(absl::StrCat("found ", Describe(),
                              "; must be an integer of at least 0"));
  }
  if (!absl::SimpleAtoi(number, &value)) {
    return Error(absl::StrCat("found ", Describe(), "; must be below 2^63"));
  }
  at_ += number.size();
  return value;
}

absl::StatusOr<double> JsonScanner::Number() {
  const absl::string_view number = NumberText();
  double value = 0;
  if (number.empty() || !absl::SimpleAtod(number, &value)) {
    return Error(absl::StrCat("found ", Describe(), "; must be a number"));
  }
  at_ += number.size();
  return value;
}

absl::Status JsonScanner::Skip() {
  switch (Peek()) {
    case '{':
      return Object([this](const std::string&) { return Skip(); });
    case '[':
      return Array([this] { return Skip(); });
    case '"':
      return String().status();
    default:
      for (absl::string_view word : {"null", "true", "false"}) {
        if (text_.substr(at_, word.size()) == word) {
          at_ += word.size();
          return absl::OkStatus();
        }
      }
      return Number().status();
  }
}

absl::Status JsonScanner::End() {
  Peek();
  if (at_ >= text_.size()) return absl::OkStatus();
  return Error(absl::StrCat("found ", Describe(),
                            " after the value; only spaces may follow"));
}

}  // namespace deepslice
