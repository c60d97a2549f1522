#include "ir/token_reader.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/limits.h"
#include "schema/base/nearest.h"

namespace deepslice {
namespace {

// Not strtod: its decimal point depends on the locale.
template <typename T>
bool ReadNumber(const Token& token, T* out) {
  const absl::string_view text = token.text;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return token.kind == Token::kNumber && error == std::errc() && stop == end;
}

bool TooLong(absl::string_view name) {
  return static_cast<int64_t>(name.size()) > limits::kTensorNameBytes;
}

}  // namespace

absl::Status TokenReader::Eat(char c) {
  if (TryEat(c)) return absl::OkStatus();
  return Expected(Peek(), absl::StrCat("'", std::string(1, c), "'"));
}

absl::Status TokenReader::EatWord(absl::string_view word) {
  if (TryEatWord(word)) return absl::OkStatus();
  return Expected(Peek(), absl::StrCat("'", word, "'"));
}

bool TokenReader::TryEat(char c) {
  if (!Peek().Is(c)) return false;
  Take();
  return true;
}

bool TokenReader::TryEatWord(absl::string_view word) {
  if (!Peek().IsWord(word)) return false;
  Take();
  return true;
}

absl::Status TokenReader::EndOfList(char close) {
  if (TryEat(close)) return absl::OkStatus();
  return Expected(Peek(), absl::StrCat("',' or '", std::string(1, close), "'"));
}

absl::StatusOr<std::string> TokenReader::Name(Token::Kind kind,
                                              absl::string_view what) {
  const Token token = Take();
  if (token.kind != kind) return Expected(token, what);
  if (TooLong(token.value)) {
    return ErrorAt(token, absl::StrCat("expected a name of at most ",
                                       limits::kTensorNameBytes, " bytes, got ",
                                       token.value.size()));
  }
  return token.value;
}

absl::StatusOr<std::string> TokenReader::Identifier(absl::string_view what) {
  const Token token = Take();
  if (token.kind != Token::kIdentifier || TooLong(token.text)) {
    return Expected(token, what);
  }
  return std::string(token.text);
}

absl::StatusOr<int64_t> TokenReader::Integer(absl::string_view what, int64_t lo,
                                             int64_t hi) {
  const Token token = Take();
  int64_t number = 0;
  if (!ReadNumber(token, &number) || number < lo || number > hi) {
    return Expected(token, absl::StrCat(what, " from ", lo, " to ", hi));
  }
  return number;
}

absl::StatusOr<double> TokenReader::Real() {
  const Token token = Take();
  double number = 0;
  if (!ReadNumber(token, &number)) return Expected(token, "a number");
  return number;
}

absl::StatusOr<int> TokenReader::OneOf(
    absl::Span<const absl::string_view> names) {
  const Token token = Take();
  for (size_t i = 0; i < names.size(); ++i) {
    if (token.IsWord(names[i])) return static_cast<int>(i);
  }
  return Expected(token, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
}

std::string WithHint(absl::string_view what, const Token& got,
                     const std::vector<absl::string_view>& names) {
  const std::string nearest = NearestName(got.text, names);
  return nearest.empty() ? std::string(what)
                         : absl::StrCat(what, " (", nearest, "?)");
}

}  // namespace deepslice
