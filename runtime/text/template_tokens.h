// A reading position in the tokens of a template, with its errors and bounds.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_TOKENS_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_TOKENS_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/text/template_ast.h"
#include "runtime/text/template_lexer.h"

namespace deepslice {

class TemplateTokens {
 public:
  using Kind = TemplateToken::Kind;

  // The last token is kEnd.
  explicit TemplateTokens(std::vector<TemplateToken> tokens)
      : tokens_(std::move(tokens)) {}

  const TemplateToken& Peek(size_t ahead = 0) const {
    return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)];
  }
  TemplateToken Take() {
    TemplateToken t = Peek();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return t;
  }
  int line() const { return Peek().line; }

  bool IsOp(absl::string_view op, size_t ahead = 0) const {
    return Peek(ahead).kind == Kind::kOperator && Peek(ahead).text == op;
  }
  bool IsName(absl::string_view name, size_t ahead = 0) const {
    return Peek(ahead).kind == Kind::kName && Peek(ahead).text == name;
  }
  bool TakeOp(absl::string_view op) {
    if (!IsOp(op)) return false;
    Take();
    return true;
  }
  bool TakeName(absl::string_view name) {
    if (!IsName(name)) return false;
    Take();
    return true;
  }
  absl::Status NeedOp(absl::string_view op) {
    if (TakeOp(op)) return absl::OkStatus();
    return Expected(absl::StrCat("\"", op, "\""));
  }
  absl::StatusOr<std::string> NeedName() {
    if (Peek().kind != Kind::kName) return Expected("a name");
    return Take().text;
  }
  absl::Status Need(Kind kind, absl::string_view what) {
    if (Peek().kind != kind) return Expected(what);
    Take();
    return absl::OkStatus();
  }

  absl::Status Expected(absl::string_view what) const {
    const TemplateToken& t = Peek();
    absl::string_view found = t.text;
    if (found.empty()) {
      found = t.kind == Kind::kEnd ? "the end of the template"
                                   : "the end of the tag";
    }
    return absl::InvalidArgumentError(
        absl::StrCat("line ", t.line, ": expected ", what, ", found ", found));
  }
  // Where names that are taken from now on are remembered from.
  size_t Position() const { return pos_; }
  // Whether a name was taken at or behind `start` that is no attribute.
  bool NamedSince(size_t start, absl::string_view name) const {
    for (size_t i = start; i < pos_; ++i) {
      if (tokens_[i].kind == Kind::kName && tokens_[i].text == name &&
          !(i > 0 && tokens_[i - 1].kind == Kind::kOperator &&
            tokens_[i - 1].text == ".")) {
        return true;
      }
    }
    return false;
  }

  // In soft parts, which may never run, unknown filters and tests are errors
  // only when they do. Until the result goes out of scope.
  class Softness {
   public:
    Softness(bool* flag, bool soft) : flag_(flag), was_(*flag) { *flag = soft; }
    ~Softness() { *flag_ = was_; }
    Softness(const Softness&) = delete;

   private:
    bool* flag_;
    bool was_;
  };
  Softness Soften(bool soft) { return Softness(&soft_, soft); }
  bool soft() const { return soft_; }

  static absl::Status Unknown(int line, absl::string_view what) {
    return absl::UnimplementedError(
        absl::StrCat("line ", line, ": ", what, " is not supported"));
  }

 private:
  std::vector<TemplateToken> tokens_;
  size_t pos_ = 0;
  bool soft_ = false;
};

// One expression; `allow_tuple`: "a, b" without parentheses as well.
// `allow_if`: "a if b else c" as well.
absl::StatusOr<TemplateExprPtr> ParseTemplateExpr(TemplateTokens& tokens,
                                                  bool allow_tuple = false,
                                                  bool allow_if = true);

// The "| filter" parts that follow `input`; `inline_start`: the first one
// without its "|".
absl::StatusOr<TemplateExprPtr> ParseTemplateFilters(TemplateTokens& tokens,
                                                     TemplateExprPtr input,
                                                     bool inline_start = false);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_TOKENS_H_
