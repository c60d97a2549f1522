// Text of a graph to tokens, and errors that show where.
#ifndef DEEPSLICE_IR_LEXER_H_
#define DEEPSLICE_IR_LEXER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct Token {
  enum Kind {
    kEnd,
    kIdentifier,  // graph, f32, heads
    kNumber,      // -12, 1e-05
    kString,      // "model.embed.weight"
    kValue,       // %x
    kSymbol,      // @layers.0.mlp_out
    kPunctuation,
    kBad,  // a byte or a string that starts nothing
  };
  Kind kind = kEnd;
  absl::string_view text;  // as written; its begin is the token's place
  int line = 1;
  // Names without % or @; strings without quotes and escapes.
  std::string value;

  bool Is(char c) const { return kind == kPunctuation && text[0] == c; }
  bool IsWord(absl::string_view word) const {
    return kind == kIdentifier && text == word;
  }
};

// Reads tokens one after the other. `text` must outlive the lexer and its
// tokens.
class Lexer {
 public:
  Lexer(absl::string_view text, absl::string_view file);

  // The token that Take returns next.
  const Token& Peek() const { return next_; }
  Token Take();

  // InvalidArgument "FILE:LINE:COLUMN: message", the source line, and a caret
  // below the column where `at` begins.
  absl::Status ErrorAt(const Token& at, absl::string_view message) const;
  // ErrorAt with "expected X, got Y", Y being the token.
  absl::Status Expected(const Token& at, absl::string_view what) const;

 private:
  void Scan();
  void SkipSpace();
  void ScanString();

  const absl::string_view text_;
  const absl::string_view file_;
  size_t pos_ = 0;
  int line_ = 1;
  Token next_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_IR_LEXER_H_
