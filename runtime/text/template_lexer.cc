// The template lexer: white space control, comments, raw blocks, tokens.
#include "runtime/text/template_lexer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Kind = TemplateToken::Kind;

// Bytes of white space, as \s of Python's re has it, at s[pos]; 0 for none.
size_t SpaceAt(absl::string_view s, size_t pos) {
  const CodePoint c = DecodeUtf8(s, pos);
  return IsPythonSpace(c.value) ? c.size : 0;
}

// Bytes of a part of a name at s[pos]; 0 for none.
size_t NamePartAt(absl::string_view s, size_t pos) {
  if (pos >= s.size()) return 0;
  const CodePoint c = DecodeUtf8(s, pos);
  return IsPythonWord(c.value) ? c.size : 0;
}

// Where the white space begins that ends at s[end]; not before `begin`.
size_t SpaceBefore(absl::string_view s, size_t begin, size_t end) {
  while (end > begin) {
    const size_t last = PreviousUtf8(s, end);
    if (!SpaceAt(s, last)) break;
    end = last;
  }
  return end;
}

// Where the line's white space begins that ends at s[end].
size_t LineSpaceBefore(absl::string_view s, size_t begin, size_t end) {
  while (end > begin) {
    const size_t last = PreviousUtf8(s, end);
    if (s[last] == '\n' || !SpaceAt(s, last)) break;
    end = last;
  }
  return end;
}

class Lexer {
 public:
  explicit Lexer(std::string text) : text_(std::move(text)) {}

  absl::StatusOr<std::vector<TemplateToken>> Run() {
    while (pos_ < text_.size()) DS_RETURN_IF_ERROR(Next());
    Add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_, ": ", what));
  }
  void Add(Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }
  bool Looking(absl::string_view s) const {
    return absl::StartsWith(absl::string_view(text_).substr(pos_), s);
  }
  char Peek(size_t ahead = 0) const {
    return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
  }
  void Skip(size_t n) {
    line_ += static_cast<int>(
        std::count(text_.begin() + pos_, text_.begin() + pos_ + n, '\n'));
    pos_ += n;
  }
  void SkipSpace() {
    while (pos_ < text_.size()) {
      const size_t n = SpaceAt(text_, pos_);
      if (n == 0) return;
      Skip(n);
    }
  }

  // Text up to the next tag, then that tag.
  absl::Status Next() {
    size_t tag = pos_;
    while ((tag = text_.find('{', tag)) != std::string::npos) {
      const char c = tag + 1 < text_.size() ? text_[tag + 1] : '\0';
      if (c == '{' || c == '%' || c == '#') break;
      ++tag;
    }
    if (tag == std::string::npos) {
      Text(text_.size());
      return absl::OkStatus();
    }
    const char kind = text_[tag + 1];
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    size_t end = tag;
    if (sign == '-') {
      end = SpaceBefore(text_, pos_, end);
    } else if (sign != '+' && kind != '{') {
      // lstrip_blocks: a tag that stands first in its line takes the white
      // space before it.
      const size_t start = LineSpaceBefore(text_, pos_, end);
      const bool first_in_line =
          start > pos_ ? text_[start - 1] == '\n' : line_starting_;
      if (first_in_line) end = start;
    }
    Text(end);
    Skip(tag - pos_);
    const size_t open = 2 + (sign == '-' || sign == '+');
    Skip(open);
    if (kind == '#') return Comment();
    if (kind == '%' && IsTag("raw", /*may_keep=*/false)) return Raw();
    Add(kind == '%' ? Kind::kBlockBegin : Kind::kOutputBegin, "");
    return Expression(kind == '%');
  }

  void Text(size_t end) {
    if (end > pos_) {
      Add(Kind::kText, text_.substr(pos_, end - pos_));
      Skip(end - pos_);
    }
  }

  absl::Status Comment() {
    const size_t end = text_.find("#}", pos_);
    if (end == std::string::npos) return Error("comment without \"#}\"");
    const char sign = end > pos_ ? text_[end - 1] : '\0';
    Skip(end + 2 - pos_);
    AfterTag(sign, /*trim_newline=*/true);
    return absl::OkStatus();
  }

  // White space after a closed tag whose last sign was `sign`.
  void AfterTag(char sign, bool trim_newline) {
    const size_t start = pos_;
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trim_newline && Peek() == '\n') {
      Skip(1);
    }
    line_starting_ = pos_ > start && text_[pos_ - 1] == '\n';
  }

  // Whether the block that starts here is {% name %}.
  bool IsTag(absl::string_view name, bool may_keep = true) const {
    absl::string_view rest = absl::string_view(text_).substr(pos_);
    const auto strip = [&] {
      while (!rest.empty()) {
        const size_t n = SpaceAt(rest, 0);
        if (n == 0) return;
        rest.remove_prefix(n);
      }
    };
    strip();
    if (!absl::ConsumePrefix(&rest, name)) return false;
    strip();
    return absl::StartsWith(rest, "%}") || absl::StartsWith(rest, "-%}") ||
           (may_keep && absl::StartsWith(rest, "+%}"));
  }

  absl::Status CloseTag() {
    const size_t end = text_.find("%}", pos_);
    const char sign = text_[end - 1];
    Skip(end + 2 - pos_);
    AfterTag(sign, /*trim_newline=*/true);
    return absl::OkStatus();
  }

  absl::Status Raw() {
    // {% raw %} itself does not take the newline after it.
    const size_t close = text_.find("%}", pos_);
    const char sign = text_[close - 1];
    Skip(close + 2 - pos_);
    if (sign == '-') SkipSpace();
    for (size_t tag = pos_; (tag = text_.find("{%", tag)) != std::string::npos;
         ++tag) {
      const char open = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
      const size_t saved = pos_;
      pos_ = tag + 2 + (open == '-' || open == '+');
      const bool is_end = IsTag("endraw");
      const size_t body = pos_;
      pos_ = saved;
      if (!is_end) continue;
      size_t end = tag;
      if (open == '-') {
        end = SpaceBefore(text_, pos_, end);
      } else if (open != '+') {
        const size_t start = LineSpaceBefore(text_, pos_, end);
        if (start > pos_ && text_[start - 1] == '\n') end = start;
      }
      Text(end);
      Skip(body - pos_);
      return CloseTag();
    }
    return Error("raw block without \"{% endraw %}\"");
  }

  // Tokens up to the end of the tag.
  absl::Status Expression(bool block) {
    std::string open;  // brackets not closed yet: inside, "}}" ends nothing
    const absl::string_view close = block ? "%}" : "}}";
    while (true) {
      SkipSpace();
      if (pos_ >= text_.size()) {
        return Error(absl::StrCat("tag without \"", close, "\""));
      }
      const char sign = Peek();
      const bool signed_close =
          (sign == '-' || (block && sign == '+')) &&
          absl::StartsWith(absl::string_view(text_).substr(pos_ + 1), close);
      if (open.empty() && (signed_close || Looking(close))) {
        Add(block ? Kind::kBlockEnd : Kind::kOutputEnd, "");
        Skip(2 + signed_close);
        AfterTag(signed_close ? sign : '\0', block);
        return absl::OkStatus();
      }
      DS_RETURN_IF_ERROR(Token(&open));
    }
  }

  absl::Status Token(std::string* open) {
    const char c = Peek();
    if (const size_t first = NamePartAt(text_, pos_);
        first > 0 && !absl::ascii_isdigit(c)) {
      size_t n = first;
      while (const size_t more = NamePartAt(text_, pos_ + n)) n += more;
      Add(Kind::kName, text_.substr(pos_, n));
      Skip(n);
      return absl::OkStatus();
    }
    if (absl::ascii_isdigit(c)) return Number();
    if (c == '\'' || c == '"') return String(c);
    for (absl::string_view op : {"**", "//", "==", "!=", "<=", ">="}) {
      if (Looking(op)) {
        Add(Kind::kOperator, std::string(op));
        Skip(2);
        return absl::OkStatus();
      }
    }
    if (absl::string_view("+-*/%~[](){}<>=.:|,").find(c) ==
        absl::string_view::npos) {
      return Error(
          absl::StrCat("unexpected \"",
                       text_.substr(pos_, DecodeUtf8(text_, pos_).size), "\""));
    }
    if (c == '(' || c == '[' || c == '{') open->push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      const char want = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open->empty() || open->back() != want) {
        return Error(absl::StrCat("unexpected \"", std::string(1, c), "\""));
      }
      open->pop_back();
    }
    Add(Kind::kOperator, std::string(1, c));
    Skip(1);
    return absl::OkStatus();
  }

  // Digits of a base, single underscores between; 0 when there are none.
  size_t Digits(size_t n, int base, std::string* digits) const {
    const auto is_digit = [&](char c) {
      return base == 16   ? absl::ascii_isxdigit(c)
             : base == 10 ? absl::ascii_isdigit(c)
                          : c >= '0' && c < '0' + base;
    };
    const size_t start = n;
    while (is_digit(Peek(n)) ||
           (Peek(n) == '_' && n > start && is_digit(Peek(n + 1)))) {
      if (Peek(n) != '_') *digits += Peek(n);
      ++n;
    }
    return n - start;
  }

  absl::Status Number() {
    const char second = absl::ascii_tolower(Peek(1));
    const int base = Peek() != '0'   ? 10
                     : second == 'x' ? 16
                     : second == 'o' ? 8
                     : second == 'b' ? 2
                                     : 10;
    std::string digits;
    if (base != 10) {
      const size_t underscore = Peek(2) == '_';
      const size_t n = Digits(2 + underscore, base, &digits);
      if (n > 0) return AddInteger(2 + underscore + n, digits, base);
    }
    size_t n = Digits(0, 10, &digits);
    bool is_float = false;
    // After a dot a number is an index, as in `a.0`.
    const bool after_dot = !tokens_.empty() && tokens_.back().text == "." &&
                           tokens_.back().kind == Kind::kOperator;
    const size_t whole = n;
    if (!after_dot && Peek(n) == '.' && absl::ascii_isdigit(Peek(n + 1))) {
      is_float = true;
      digits += '.';
      ++n;
      n += Digits(n, 10, &digits);
    }
    if (!after_dot && (Peek(n) == 'e' || Peek(n) == 'E')) {
      const size_t sign = Peek(n + 1) == '+' || Peek(n + 1) == '-';
      if (absl::ascii_isdigit(Peek(n + 1 + sign))) {
        is_float = true;
        digits += text_.substr(pos_ + n, 1 + sign);
        n += 1 + sign;
        n += Digits(n, 10, &digits);
      }
    }
    if (!is_float) {
      // A zero in front ends the number: only zeros may follow it.
      if (digits[0] == '0' && digits.find_first_not_of('0') != digits.npos) {
        return Error("number with a zero in front");
      }
      return AddInteger(whole, digits, 10);
    }
    TemplateToken token{Kind::kFloat, digits, line_};
    if (!absl::SimpleAtod(digits, &token.float_value)) {
      return Error(absl::StrCat("number ", digits, " is not one"));
    }
    tokens_.push_back(std::move(token));
    Skip(n);
    return absl::OkStatus();
  }

  absl::Status AddInteger(size_t n, const std::string& digits, int base) {
    TemplateToken token{Kind::kInt, digits, line_};
    const char* end = digits.data() + digits.size();
    const auto r = std::from_chars(digits.data(), end, token.int_value, base);
    if (r.ec != std::errc() || r.ptr != end) {
      return Error(absl::StrCat("number ", digits, " is too large"));
    }
    tokens_.push_back(std::move(token));
    Skip(n);
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    const int line = line_;
    std::string out;
    size_t i = pos_ + 1;
    while (true) {
      if (i >= text_.size()) return Error("string without end");
      const char c = text_[i++];
      if (c == quote) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (i >= text_.size()) return Error("string without end");
      DS_RETURN_IF_ERROR(Escape(&i, &out));
    }
    tokens_.push_back({Kind::kString, std::move(out), line});
    Skip(i - pos_);
    return absl::OkStatus();
  }

  // Python's escapes; *i is after the backslash.
  absl::Status Escape(size_t* i, std::string* out) {
    constexpr std::pair<char, absl::string_view> kSimple[] = {
        {'n', "\n"}, {'t', "\t"}, {'r', "\r"}, {'\\', "\\"},
        {'\'', "'"}, {'"', "\""}, {'a', "\a"}, {'b', "\b"},
        {'f', "\f"}, {'v', "\v"}, {'\n', ""}};
    const char c = text_[*i];
    for (const auto& [key, value] : kSimple) {
      if (c != key) continue;
      out->append(value.data(), value.size());
      ++*i;
      return absl::OkStatus();
    }
    if (c >= '0' && c <= '7') {
      uint32_t value = 0;
      for (int k = 0;
           k < 3 && *i < text_.size() && text_[*i] >= '0' && text_[*i] <= '7';
           ++k) {
        value = value * 8 + static_cast<uint32_t>(text_[(*i)++] - '0');
      }
      AppendUtf8(value, out);
      return absl::OkStatus();
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      uint32_t value = 0;
      const char* begin = text_.data() + *i + 1;
      const char* end = begin + std::min(digits, text_.size() - *i - 1);
      const auto r = std::from_chars(begin, end, value, 16);
      if (r.ptr != begin + digits || value > 0x10FFFF ||
          (value >= 0xD800 && value <= 0xDFFF)) {
        return Error("bad hexadecimal escape in a string");
      }
      AppendUtf8(value, out);
      *i += 1 + digits;
      return absl::OkStatus();
    }
    if (c == 'N') return Error("\\N{...} in a string is not supported");
    *out += '\\';  // Python keeps the backslash of what it does not know
    return absl::OkStatus();
  }

  std::string text_;
  size_t pos_ = 0;
  int line_ = 1;
  // Whether nothing but trimmed white space stands before pos_ in its line.
  bool line_starting_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<TemplateToken>> LexTemplate(absl::string_view text) {
  std::string source =
      absl::StrReplaceAll(text, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(source, "\n")) source.pop_back();
  return Lexer(std::move(source)).Run();
}

}  // namespace deepslice
