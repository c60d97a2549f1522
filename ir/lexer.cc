// Tokens are found by their first byte; nothing is looked at twice.
#include "ir/lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ir/names.h"

namespace deepslice {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// What a reader sees of bytes that may be anything.
std::string Visible(absl::string_view bytes) {
  std::string out(bytes);
  for (char& c : out) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) {
      c = c == '\t' ? ' ' : '?';
    }
  }
  return out;
}

}  // namespace

Lexer::Lexer(absl::string_view text, absl::string_view file)
    : text_(text), file_(file) {
  Scan();
}

Token Lexer::Take() {
  Token taken = std::move(next_);
  Scan();
  return taken;
}

void Lexer::SkipSpace() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '#') {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      line_ += c == '\n';
      ++pos_;
    } else {
      return;
    }
  }
}

void Lexer::ScanString() {
  const size_t begin = pos_++;
  next_.kind = Token::kBad;
  while (pos_ < text_.size() && text_[pos_] != '\n') {
    const char c = text_[pos_];
    if (c == '"') {
      next_.kind = Token::kString;
      ++pos_;
      break;
    }
    if (c != '\\') {
      next_.value.push_back(c);
      ++pos_;
      continue;
    }
    const absl::string_view escape = text_.substr(pos_, 4);
    if (escape.size() >= 2 && (escape[1] == '"' || escape[1] == '\\')) {
      next_.value.push_back(escape[1]);
      pos_ += 2;
    } else if (escape.size() == 4 && escape[1] == 'x' &&
               absl::ascii_isxdigit(static_cast<unsigned char>(escape[2])) &&
               absl::ascii_isxdigit(static_cast<unsigned char>(escape[3]))) {
      absl::StrAppend(&next_.value, absl::HexStringToBytes(escape.substr(2)));
      pos_ += 4;
    } else {
      break;
    }
  }
  next_.text = text_.substr(begin, pos_ - begin);
}

void Lexer::Scan() {
  SkipSpace();
  next_ = Token();
  next_.text = text_.substr(pos_, 0);
  next_.line = line_;
  if (pos_ == text_.size()) return;
  const size_t begin = pos_;
  const char c = text_[pos_];
  if (c == '"') return ScanString();
  ++pos_;
  const auto take_while = [this](auto belongs) {
    while (pos_ < text_.size() && belongs(text_[pos_])) ++pos_;
  };
  if (c == '%' || c == '@') {
    take_while(IsNameChar);
    next_.value = std::string(text_.substr(begin + 1, pos_ - begin - 1));
    next_.kind = next_.value.empty() ? Token::kBad
                 : c == '%'          ? Token::kValue
                                     : Token::kSymbol;
  } else if (IsIdentifierStart(c)) {
    take_while(IsIdentifierChar);
    next_.kind = Token::kIdentifier;
  } else if (IsDigit(c) || c == '-') {
    // A sign belongs to the number only behind an exponent's e.
    take_while([&](char d) {
      return IsDigit(d) || d == '.' || d == 'e' || d == 'E' ||
             ((d == '-' || d == '+') && (text_[pos_ - 1] | 0x20) == 'e');
    });
    next_.kind = Token::kNumber;
  } else if (absl::string_view("{}()[]:,=").find(c) !=
             absl::string_view::npos) {
    next_.kind = Token::kPunctuation;
  } else {
    next_.kind = Token::kBad;
  }
  next_.text = text_.substr(begin, pos_ - begin);
}

absl::Status Lexer::ErrorAt(const Token& at, absl::string_view message) const {
  constexpr size_t kShownBefore = 100, kShown = 160;
  const size_t offset = at.text.data() - text_.data();
  const size_t newline =
      offset == 0 ? absl::string_view::npos : text_.rfind('\n', offset - 1);
  const size_t begin = newline == absl::string_view::npos ? 0 : newline + 1;
  const size_t end = std::min(text_.find('\n', offset), text_.size());
  // A line of a megabyte is shown around the place.
  const size_t shown =
      offset - begin > kShownBefore ? offset - kShownBefore : begin;
  const std::string line =
      Visible(text_.substr(shown, std::min(end - shown, kShown)));
  return absl::InvalidArgumentError(
      absl::StrCat(file_, ":", at.line, ":", offset - begin + 1, ": ", message,
                   "\n", absl::StripTrailingAsciiWhitespace(line), "\n",
                   std::string(offset - shown, ' '), "^"));
}

absl::Status Lexer::Expected(const Token& at, absl::string_view what) const {
  constexpr size_t kShown = 60;
  std::string got = "end of text";
  if (at.kind != Token::kEnd) {
    got = Visible(at.text.substr(0, kShown));
    if (at.text.size() > kShown) got += "...";
    if (at.kind == Token::kBad && at.text.size() == 1 && at.text[0] != '"') {
      got = absl::StrCat(
          "byte 0x",
          absl::Hex(static_cast<unsigned char>(at.text[0]), absl::kZeroPad2));
    } else if (at.kind == Token::kBad && at.text[0] == '"') {
      got += " (no closing quote, or an escape other than \\\" \\\\ \\xHH)";
    } else if (at.kind != Token::kString) {
      got = absl::StrCat("'", got, "'");
    }
  }
  return ErrorAt(at, absl::StrCat("expected ", what, ", got ", got));
}

}  // namespace deepslice
