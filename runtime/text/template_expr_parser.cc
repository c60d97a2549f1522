// Expressions of the template language, by falling precedence: if, or, and,
// not, comparisons, + -, ~, * / // %, **, signs, filters and tests.
#include <algorithm>
#include <utility>

#include "runtime/text/template_functions.h"
#include "runtime/text/template_tokens.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Expr = TemplateExpr;
using ExprPtr = TemplateExprPtr;
using ExprOr = absl::StatusOr<ExprPtr>;
using TokenKind = TemplateToken::Kind;

class ExprParser {
 public:
  explicit ExprParser(TemplateTokens& tokens) : in_(tokens) {}

  ExprOr Expression(bool allow_tuple, bool allow_if) {
    if (++nesting_ > limits::kTemplateBrackets) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", in_.line(), ": more than ",
                       limits::kTemplateBrackets, " nested brackets"));
    }
    DS_ASSIGN_OR_RETURN(ExprPtr e, One(allow_if));
    if (allow_tuple && in_.IsOp(",")) {
      ExprPtr tuple = Make(Expr::Kind::kTuple, e->line);
      DS_RETURN_IF_ERROR(Push(tuple, std::move(e)));
      while (in_.TakeOp(",")) {
        if (!StartsExpression()) break;
        DS_ASSIGN_OR_RETURN(ExprPtr next, One(allow_if));
        DS_RETURN_IF_ERROR(Push(tuple, std::move(next)));
      }
      e = std::move(tuple);
    }
    --nesting_;
    return e;
  }

  // | name(args) ...
  ExprOr Filters(ExprPtr e, bool inline_start) {
    while (inline_start || in_.TakeOp("|")) {
      inline_start = false;
      ExprPtr f = Make(Expr::Kind::kFilter, in_.line());
      DS_ASSIGN_OR_RETURN(f->name, DottedName());
      if (!IsTemplateFilter(f->name) && !in_.soft()) {
        return TemplateTokens::Unknown(
            f->line, absl::StrCat("filter \"", f->name, "\""));
      }
      DS_RETURN_IF_ERROR(Push(f, std::move(e)));
      if (in_.IsOp("(")) DS_RETURN_IF_ERROR(Arguments(f));
      e = std::move(f);
    }
    return e;
  }

 private:
  absl::StatusOr<std::string> DottedName() {
    DS_ASSIGN_OR_RETURN(std::string name, in_.NeedName());
    while (in_.TakeOp(".")) {
      DS_ASSIGN_OR_RETURN(const std::string next, in_.NeedName());
      absl::StrAppend(&name, ".", next);
    }
    return name;
  }
  static ExprPtr Make(Expr::Kind kind, int line) {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = line;
    return e;
  }
  // Adds a child (or null); refuses trees that could not be walked.
  static absl::Status Push(ExprPtr& parent, ExprPtr child) {
    if (child) parent->depth = std::max(parent->depth, child->depth + 1);
    if (parent->depth > limits::kTemplateOperators) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", parent->line, ": an expression of more than ",
                       limits::kTemplateOperators, " levels"));
    }
    parent->args.push_back(std::move(child));
    return absl::OkStatus();
  }
  ExprOr Binary(Expr::Kind kind, int line, absl::string_view op, ExprPtr a,
                ExprPtr b) {
    ExprPtr e = Make(kind, line);
    e->name = std::string(op);
    DS_RETURN_IF_ERROR(Push(e, std::move(a)));
    DS_RETURN_IF_ERROR(Push(e, std::move(b)));
    return e;
  }
  bool StartsExpression() const {
    const TemplateToken& t = in_.Peek();
    if (t.kind == TokenKind::kOperator) {
      return t.text == "(" || t.text == "[" || t.text == "{" || t.text == "-" ||
             t.text == "+";
    }
    return t.kind == TokenKind::kName || t.kind == TokenKind::kString ||
           t.kind == TokenKind::kInt || t.kind == TokenKind::kFloat;
  }

  ExprOr One(bool allow_if) {
    if (!allow_if) return Or();
    // Either side of an "if" may never run. What stands before it is parsed
    // when the "if" is not known yet.
    const bool conditional = HasConditional();
    const auto soft = in_.Soften(in_.soft() || conditional);
    DS_ASSIGN_OR_RETURN(ExprPtr e, Or());
    while (in_.IsName("if")) {
      const int line = in_.Take().line;
      DS_ASSIGN_OR_RETURN(ExprPtr condition, Or());
      ExprPtr other;
      if (in_.TakeName("else")) {
        if (++nesting_ > limits::kTemplateBrackets)
          return in_.Expected("fewer nested if");
        DS_ASSIGN_OR_RETURN(other, One(true));
        --nesting_;
      }
      ExprPtr c = Make(Expr::Kind::kConditional, line);
      DS_RETURN_IF_ERROR(Push(c, std::move(e)));
      DS_RETURN_IF_ERROR(Push(c, std::move(condition)));
      DS_RETURN_IF_ERROR(Push(c, std::move(other)));
      e = std::move(c);
    }
    return e;
  }

  // Whether an "if" follows before the expression at hand ends.
  bool HasConditional() const {
    int open = 0;
    for (size_t i = 0;; ++i) {
      const TemplateToken& t = in_.Peek(i);
      if (t.kind == TokenKind::kEnd || t.kind == TokenKind::kBlockEnd ||
          t.kind == TokenKind::kOutputEnd) {
        return false;
      }
      if (t.kind == TokenKind::kOperator) {
        if (t.text == "(" || t.text == "[" || t.text == "{") ++open;
        if (t.text == ")" || t.text == "]" || t.text == "}") --open;
        if (open < 0 || (open == 0 && t.text == ",")) return false;
      }
      if (open == 0 && t.kind == TokenKind::kName && t.text == "if")
        return true;
    }
  }

  ExprOr Or() {
    DS_ASSIGN_OR_RETURN(ExprPtr e, And());
    while (in_.IsName("or")) {
      const int line = in_.Take().line;
      DS_ASSIGN_OR_RETURN(ExprPtr b, And());
      DS_ASSIGN_OR_RETURN(
          e, Binary(Expr::Kind::kOr, line, "or", std::move(e), std::move(b)));
    }
    return e;
  }

  ExprOr And() {
    DS_ASSIGN_OR_RETURN(ExprPtr e, Not());
    while (in_.IsName("and")) {
      const int line = in_.Take().line;
      DS_ASSIGN_OR_RETURN(ExprPtr b, Not());
      DS_ASSIGN_OR_RETURN(
          e, Binary(Expr::Kind::kAnd, line, "and", std::move(e), std::move(b)));
    }
    return e;
  }

  ExprOr Not() {
    if (!in_.IsName("not")) return Compare();
    const int line = in_.Take().line;
    if (++nesting_ > limits::kTemplateBrackets)
      return in_.Expected("fewer \"not\"");
    DS_ASSIGN_OR_RETURN(ExprPtr inner, Not());
    --nesting_;
    ExprPtr e = Make(Expr::Kind::kNot, line);
    DS_RETURN_IF_ERROR(Push(e, std::move(inner)));
    return e;
  }

  // The comparison at hand, taken; empty when there is none.
  std::string TakeComparison() {
    for (absl::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (in_.TakeOp(op)) return std::string(op);
    }
    if (in_.TakeName("in")) return "in";
    if (in_.IsName("not") && in_.IsName("in", 1)) {
      in_.Take();
      in_.Take();
      return "not in";
    }
    return "";
  }

  ExprOr Compare() {
    DS_ASSIGN_OR_RETURN(ExprPtr first, Sum());
    const int line = in_.line();
    std::string op = TakeComparison();
    if (op.empty()) return first;
    ExprPtr e = Make(Expr::Kind::kCompare, line);
    DS_RETURN_IF_ERROR(Push(e, std::move(first)));
    while (!op.empty()) {
      DS_ASSIGN_OR_RETURN(ExprPtr next, Sum());
      DS_RETURN_IF_ERROR(Push(e, std::move(next)));
      e->ops.push_back(std::move(op));
      op = TakeComparison();
    }
    return e;
  }

  ExprOr Sum() {
    DS_ASSIGN_OR_RETURN(ExprPtr e, Concat());
    while (in_.IsOp("+") || in_.IsOp("-")) {
      const TemplateToken op = in_.Take();
      DS_ASSIGN_OR_RETURN(ExprPtr b, Concat());
      DS_ASSIGN_OR_RETURN(e, Binary(Expr::Kind::kBinary, op.line, op.text,
                                    std::move(e), std::move(b)));
    }
    return e;
  }

  ExprOr Concat() {
    DS_ASSIGN_OR_RETURN(ExprPtr e, Product());
    while (in_.IsOp("~")) {
      const TemplateToken op = in_.Take();
      DS_ASSIGN_OR_RETURN(ExprPtr b, Product());
      DS_ASSIGN_OR_RETURN(e, Binary(Expr::Kind::kBinary, op.line, op.text,
                                    std::move(e), std::move(b)));
    }
    return e;
  }

  ExprOr Product() {
    DS_ASSIGN_OR_RETURN(ExprPtr e, Power());
    while (in_.IsOp("*") || in_.IsOp("/") || in_.IsOp("//") || in_.IsOp("%")) {
      const TemplateToken op = in_.Take();
      DS_ASSIGN_OR_RETURN(ExprPtr b, Power());
      DS_ASSIGN_OR_RETURN(e, Binary(Expr::Kind::kBinary, op.line, op.text,
                                    std::move(e), std::move(b)));
    }
    return e;
  }

  ExprOr Power() {
    DS_ASSIGN_OR_RETURN(ExprPtr e, Unary(/*with_filters=*/true));
    while (in_.IsOp("**")) {
      const TemplateToken op = in_.Take();
      DS_ASSIGN_OR_RETURN(ExprPtr b, Unary(true));
      DS_ASSIGN_OR_RETURN(e, Binary(Expr::Kind::kBinary, op.line, op.text,
                                    std::move(e), std::move(b)));
    }
    return e;
  }

  ExprOr Unary(bool with_filters) {
    ExprPtr e;
    if (in_.IsOp("-") || in_.IsOp("+")) {
      const TemplateToken op = in_.Take();
      if (++nesting_ > limits::kTemplateBrackets)
        return in_.Expected("fewer signs");
      DS_ASSIGN_OR_RETURN(ExprPtr inner, Unary(false));
      --nesting_;
      e = Make(op.text == "-" ? Expr::Kind::kNegative : Expr::Kind::kPositive,
               op.line);
      DS_RETURN_IF_ERROR(Push(e, std::move(inner)));
    } else {
      DS_ASSIGN_OR_RETURN(e, Primary());
    }
    DS_ASSIGN_OR_RETURN(e, Postfix(std::move(e)));
    if (!with_filters) return e;
    while (true) {
      if (in_.IsOp("|")) {
        DS_ASSIGN_OR_RETURN(e, Filters(std::move(e), false));
      } else if (in_.IsName("is")) {
        DS_ASSIGN_OR_RETURN(e, Test(std::move(e)));
      } else if (in_.IsOp("(")) {
        DS_ASSIGN_OR_RETURN(e, Call(std::move(e)));
      } else {
        return e;
      }
    }
  }

  // is [not] name [argument]
  ExprOr Test(ExprPtr subject) {
    const int line = in_.Take().line;
    const bool negated = in_.TakeName("not");
    ExprPtr e = Make(Expr::Kind::kTest, line);
    DS_ASSIGN_OR_RETURN(e->name, DottedName());
    if (!IsTemplateTest(e->name) && !in_.soft()) {
      return TemplateTokens::Unknown(line,
                                     absl::StrCat("test \"", e->name, "\""));
    }
    DS_RETURN_IF_ERROR(Push(e, std::move(subject)));
    const bool joins =
        in_.IsName("else") || in_.IsName("or") || in_.IsName("and");
    const bool sign = in_.IsOp("-") || in_.IsOp("+");
    if (in_.IsOp("(")) {
      DS_RETURN_IF_ERROR(Arguments(e));
    } else if (StartsExpression() && !joins && !sign) {
      if (in_.IsName("is")) return in_.Expected("no second \"is\"");
      DS_ASSIGN_OR_RETURN(ExprPtr arg, Primary());
      DS_ASSIGN_OR_RETURN(arg, Postfix(std::move(arg)));
      DS_RETURN_IF_ERROR(Push(e, std::move(arg)));
    }
    if (!negated) return e;
    ExprPtr n = Make(Expr::Kind::kNot, line);
    DS_RETURN_IF_ERROR(Push(n, std::move(e)));
    return n;
  }

  ExprOr Call(ExprPtr callee) {
    ExprPtr e = Make(Expr::Kind::kCall, in_.line());
    DS_RETURN_IF_ERROR(Push(e, std::move(callee)));
    DS_RETURN_IF_ERROR(Arguments(e));
    return e;
  }

  // (a, b, *c, name=d, **e)
  absl::Status Arguments(ExprPtr& call) {
    DS_RETURN_IF_ERROR(in_.NeedOp("("));
    bool spread = false, named_spread = false, first = true;
    while (!in_.TakeOp(")")) {
      if (!first) {
        DS_RETURN_IF_ERROR(in_.NeedOp(","));
        if (in_.TakeOp(")")) break;
      }
      first = false;
      const int line = in_.line();
      const bool twice = in_.IsOp("**");
      if (twice || in_.IsOp("*")) {
        if (named_spread || (spread && !twice)) return in_.Expected("\")\"");
        in_.Take();
        (twice ? named_spread : spread) = true;
        DS_ASSIGN_OR_RETURN(ExprPtr value, Expression(false, true));
        ExprPtr e =
            Make(twice ? Expr::Kind::kNamedSpread : Expr::Kind::kSpread, line);
        DS_RETURN_IF_ERROR(Push(e, std::move(value)));
        DS_RETURN_IF_ERROR(Push(call, std::move(e)));
      } else if (in_.Peek().kind == TokenKind::kName && in_.IsOp("=", 1)) {
        if (named_spread) return in_.Expected("\")\"");
        std::string name = in_.Take().text;
        in_.Take();
        for (const auto& entry : call->named) {
          if (entry.first == name) {
            return in_.Expected(absl::StrCat("no second ", name, "="));
          }
        }
        DS_ASSIGN_OR_RETURN(ExprPtr value, Expression(false, true));
        call->depth = std::max(call->depth, value->depth + 1);
        call->named.emplace_back(std::move(name), std::move(value));
      } else {
        if (!call->named.empty() || spread || named_spread) {
          return in_.Expected("name=value");
        }
        DS_ASSIGN_OR_RETURN(ExprPtr value, Expression(false, true));
        DS_RETURN_IF_ERROR(Push(call, std::move(value)));
      }
    }
    return absl::OkStatus();
  }

  ExprOr Postfix(ExprPtr e) {
    while (true) {
      const int line = in_.line();
      if (in_.TakeOp(".")) {
        if (in_.Peek().kind == TokenKind::kInt) {
          ExprPtr index = Make(Expr::Kind::kLiteral, line);
          index->literal = TemplateValue::Int(in_.Take().int_value);
          DS_ASSIGN_OR_RETURN(e, Binary(Expr::Kind::kIndex, line, "",
                                        std::move(e), std::move(index)));
          continue;
        }
        ExprPtr a = Make(Expr::Kind::kAttribute, line);
        DS_ASSIGN_OR_RETURN(a->name, in_.NeedName());
        DS_RETURN_IF_ERROR(Push(a, std::move(e)));
        e = std::move(a);
      } else if (in_.TakeOp("[")) {
        DS_ASSIGN_OR_RETURN(e, Subscript(std::move(e), line));
      } else if (in_.IsOp("(")) {
        DS_ASSIGN_OR_RETURN(e, Call(std::move(e)));
      } else {
        return e;
      }
    }
  }

  // After "[": an index, a slice, or a tuple as an index.
  ExprOr Subscript(ExprPtr subject, int line) {
    if (in_.IsOp("]")) {
      in_.Take();
      return Binary(Expr::Kind::kIndex, line, "", std::move(subject),
                    Make(Expr::Kind::kTuple, line));
    }
    ExprPtr parts[3];
    size_t n = 0;
    bool slice = false;
    while (!in_.IsOp("]") && !in_.IsOp(",")) {
      if (in_.TakeOp(":")) {
        slice = true;
        if (++n > 2) return in_.Expected("\"]\"");
      } else {
        if (parts[n]) return in_.Expected("\"]\"");
        DS_ASSIGN_OR_RETURN(parts[n], Expression(false, true));
      }
    }
    if (in_.IsOp(",")) {
      if (slice || !parts[0]) return in_.Expected("an index");
      ExprPtr tuple = Make(Expr::Kind::kTuple, line);
      DS_RETURN_IF_ERROR(Push(tuple, std::move(parts[0])));
      while (in_.TakeOp(",")) {
        DS_ASSIGN_OR_RETURN(ExprPtr next, Expression(false, true));
        DS_RETURN_IF_ERROR(Push(tuple, std::move(next)));
      }
      DS_RETURN_IF_ERROR(in_.NeedOp("]"));
      return Binary(Expr::Kind::kIndex, line, "", std::move(subject),
                    std::move(tuple));
    }
    in_.Take();
    ExprPtr e = Make(slice ? Expr::Kind::kSlice : Expr::Kind::kIndex, line);
    DS_RETURN_IF_ERROR(Push(e, std::move(subject)));
    for (int i = 0; i < (slice ? 3 : 1); ++i) {
      DS_RETURN_IF_ERROR(Push(e, std::move(parts[i])));
    }
    return e;
  }

  ExprOr Primary() {
    const TemplateToken t = in_.Peek();
    if (in_.TakeOp("(")) return Parenthesis(t.line);
    if (in_.TakeOp("[")) {
      ExprPtr e = Make(Expr::Kind::kList, t.line);
      while (!in_.TakeOp("]")) {
        DS_ASSIGN_OR_RETURN(ExprPtr item, Expression(false, true));
        DS_RETURN_IF_ERROR(Push(e, std::move(item)));
        if (!in_.IsOp("]")) DS_RETURN_IF_ERROR(in_.NeedOp(","));
      }
      return e;
    }
    if (in_.TakeOp("{")) {
      ExprPtr e = Make(Expr::Kind::kMap, t.line);
      while (!in_.TakeOp("}")) {
        DS_ASSIGN_OR_RETURN(ExprPtr key, Expression(false, true));
        DS_RETURN_IF_ERROR(Push(e, std::move(key)));
        DS_RETURN_IF_ERROR(in_.NeedOp(":"));
        DS_ASSIGN_OR_RETURN(ExprPtr value, Expression(false, true));
        DS_RETURN_IF_ERROR(Push(e, std::move(value)));
        if (!in_.IsOp("}")) DS_RETURN_IF_ERROR(in_.NeedOp(","));
      }
      return e;
    }
    ExprPtr e = Make(Expr::Kind::kLiteral, t.line);
    switch (t.kind) {
      case TokenKind::kString: {
        std::string text;  // strings side by side are one
        while (in_.Peek().kind == TokenKind::kString) text += in_.Take().text;
        e->literal = TemplateValue::String(text);
        return e;
      }
      case TokenKind::kInt:
        e->literal = TemplateValue::Int(in_.Take().int_value);
        return e;
      case TokenKind::kFloat:
        e->literal = TemplateValue::Float(in_.Take().float_value);
        return e;
      case TokenKind::kName:
        break;
      default:
        return in_.Expected("an expression");
    }
    const std::string name = in_.Take().text;
    if (name == "true" || name == "True") {
      e->literal = TemplateValue::Bool(true);
    } else if (name == "false" || name == "False") {
      e->literal = TemplateValue::Bool(false);
    } else if (name == "none" || name == "None") {
      e->literal = TemplateValue::None();
    } else {
      e->kind = Expr::Kind::kName;
      e->name = name;
    }
    return e;
  }

  // After "(".
  ExprOr Parenthesis(int line) {
    ExprPtr e;
    if (in_.IsOp(")")) {
      e = Make(Expr::Kind::kTuple, line);
    } else {
      DS_ASSIGN_OR_RETURN(e, Expression(/*allow_tuple=*/true, true));
    }
    DS_RETURN_IF_ERROR(in_.NeedOp(")"));
    return e;
  }

  TemplateTokens& in_;
  int nesting_ = 0;
};

}  // namespace

absl::StatusOr<TemplateExprPtr> ParseTemplateExpr(TemplateTokens& tokens,
                                                  bool allow_tuple,
                                                  bool allow_if) {
  return ExprParser(tokens).Expression(allow_tuple, allow_if);
}

absl::StatusOr<TemplateExprPtr> ParseTemplateFilters(TemplateTokens& tokens,
                                                     TemplateExprPtr input,
                                                     bool inline_start) {
  return ExprParser(tokens).Filters(std::move(input), inline_start);
}

}  // namespace deepslice
