// Tokens taken with an expectation: what every phrase of the parser is made of.
#ifndef DEEPSLICE_IR_TOKEN_READER_H_
#define DEEPSLICE_IR_TOKEN_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/lexer.h"
#include "schema/base/status_macros.h"

namespace deepslice {

// Every failure is the lexer's "expected X, got Y" at the token in question.
class TokenReader {
 public:
  TokenReader(absl::string_view text, absl::string_view file)
      : lexer_(text, file) {}

  const Token& Peek() const { return lexer_.Peek(); }
  Token Take() { return lexer_.Take(); }
  absl::Status Expected(const Token& at, absl::string_view what) const {
    return lexer_.Expected(at, what);
  }
  absl::Status ErrorAt(const Token& at, absl::string_view message) const {
    return lexer_.ErrorAt(at, message);
  }

  // Takes this punctuation or word; TryEat says whether it was there.
  absl::Status Eat(char c);
  absl::Status EatWord(absl::string_view word);
  bool TryEat(char c);
  bool TryEatWord(absl::string_view word);

  // Takes a name or string, without its % @ or quotes.
  absl::StatusOr<std::string> Name(Token::Kind kind, absl::string_view what);
  absl::StatusOr<std::string> Identifier(absl::string_view what);
  absl::StatusOr<int64_t> Integer(absl::string_view what, int64_t lo,
                                  int64_t hi);
  // A finite number.
  absl::StatusOr<double> Real();
  // The index of one of these identifiers.
  absl::StatusOr<int> OneOf(absl::Span<const absl::string_view> names);

  // item {',' item} close
  template <typename Item>
  absl::Status ListUntil(char close, Item item) {
    do {
      DS_RETURN_IF_ERROR(item());
    } while (TryEat(','));
    return EndOfList(close);
  }

 private:
  absl::Status EndOfList(char close);

  Lexer lexer_;
};

// "an op (linear?)": `what` with the name nearest to the token, where one is
// near.
std::string WithHint(absl::string_view what, const Token& got,
                     const std::vector<absl::string_view>& names);

}  // namespace deepslice

#endif  // DEEPSLICE_IR_TOKEN_READER_H_
