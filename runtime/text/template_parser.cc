// Statements of the template language.
#include "runtime/text/template_parser.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_lexer.h"
#include "runtime/text/template_tokens.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Statement = TemplateStatement;
using TokenKind = TemplateToken::Kind;

constexpr int kMaxBlocks = 64;  // nested in each other

class Parser {
 public:
  explicit Parser(std::vector<TemplateToken> tokens) : in_(std::move(tokens)) {}

  absl::StatusOr<std::vector<Statement>> Run() {
    std::vector<Statement> out;
    DS_RETURN_IF_ERROR(Body({}, &out).status());
    return out;
  }

 private:
  // Statements up to a block that starts with one of `ends`, whose name is
  // taken; to the end of the template when there are none.
  absl::StatusOr<std::string> Body(
      std::initializer_list<absl::string_view> ends,
      std::vector<Statement>* out) {
    if (++blocks_ > kMaxBlocks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", in_.line(), ": more than ", kMaxBlocks, " nested blocks"));
    }
    while (true) {
      const TemplateToken t = in_.Take();
      if (t.kind == TokenKind::kEnd) {
        --blocks_;
        if (ends.size() == 0) return std::string();
        return in_.Expected(absl::StrCat("{% ", *(ends.end() - 1), " %}"));
      }
      if (t.kind == TokenKind::kText) {
        Statement s{Statement::Kind::kText, t.line};
        s.text = t.text;
        out->push_back(std::move(s));
      } else if (t.kind == TokenKind::kOutputBegin) {
        Statement s{Statement::Kind::kOutput, t.line};
        DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_, true));
        DS_RETURN_IF_ERROR(in_.Need(TokenKind::kOutputEnd, "\"}}\""));
        out->push_back(std::move(s));
      } else {
        for (absl::string_view end : ends) {
          if (in_.TakeName(end)) {
            --blocks_;
            return std::string(end);
          }
        }
        DS_RETURN_IF_ERROR(Block(out));
      }
    }
  }

  absl::Status EndBlock() { return in_.Need(TokenKind::kBlockEnd, "\"%}\""); }

  absl::Status Block(std::vector<Statement>* out) {
    const int line = in_.line();
    DS_ASSIGN_OR_RETURN(const std::string name, in_.NeedName());
    if (name == "if") return If(line, out);
    if (name == "for") return For(line, out);
    if (name == "set") return Set(line, out);
    if (name == "macro") return Macro(line, out);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", line, ": ", name, " outside of a for"));
      }
      out->push_back(Statement{name == "break" ? Statement::Kind::kBreak
                                               : Statement::Kind::kContinue,
                               line});
      return EndBlock();
    }
    if (name == "generation") {  // marks text for training; writes it as it is
      DS_RETURN_IF_ERROR(EndBlock());
      DS_RETURN_IF_ERROR(Body({"endgeneration"}, out).status());
      return EndBlock();
    }
    return TemplateTokens::Unknown(line,
                                   absl::StrCat("statement \"", name, "\""));
  }

  absl::Status If(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kIf, line};
    std::string next = "elif";
    while (next != "endif") {
      Statement::Branch branch;
      if (next == "elif") {
        DS_ASSIGN_OR_RETURN(branch.condition, ParseTemplateExpr(in_, true));
      }
      DS_RETURN_IF_ERROR(EndBlock());
      if (next == "elif") {
        DS_ASSIGN_OR_RETURN(next,
                            Body({"elif", "else", "endif"}, &branch.body));
      } else {
        DS_ASSIGN_OR_RETURN(next, Body({"endif"}, &branch.body));
      }
      s.branches.push_back(std::move(branch));
    }
    out->push_back(std::move(s));
    return EndBlock();
  }

  // a | a, b | (a, b)
  absl::Status Targets(Statement* s) {
    const bool bracket = in_.TakeOp("(");
    do {
      if (bracket && in_.IsOp(")")) break;
      DS_ASSIGN_OR_RETURN(std::string name, in_.NeedName());
      s->targets.push_back(std::move(name));
      if (in_.IsOp(",")) s->unpack = true;
    } while (in_.TakeOp(","));
    return bracket ? in_.NeedOp(")") : absl::OkStatus();
  }

  absl::Status For(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kFor, line};
    DS_RETURN_IF_ERROR(Targets(&s));
    if (!in_.TakeName("in")) return in_.Expected("\"in\"");
    DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_, true, false));
    if (in_.TakeName("if")) {
      DS_ASSIGN_OR_RETURN(s.condition, ParseTemplateExpr(in_));
    }
    if (in_.IsName("recursive")) {
      return TemplateTokens::Unknown(line, "a recursive for");
    }
    DS_RETURN_IF_ERROR(EndBlock());
    s.branches.resize(2);
    ++loops_;
    DS_ASSIGN_OR_RETURN(const std::string end,
                        Body({"else", "endfor"}, &s.branches[0].body));
    --loops_;
    if (end == "else") {
      DS_RETURN_IF_ERROR(EndBlock());
      DS_RETURN_IF_ERROR(Body({"endfor"}, &s.branches[1].body).status());
    }
    out->push_back(std::move(s));
    return EndBlock();
  }

  absl::Status Set(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kSet, line};
    if (in_.IsOp(".", 1)) {
      DS_ASSIGN_OR_RETURN(s.name, in_.NeedName());
      in_.Take();
      DS_ASSIGN_OR_RETURN(s.attribute, in_.NeedName());
    } else {
      DS_RETURN_IF_ERROR(Targets(&s));
    }
    if (in_.TakeOp("=")) {
      DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_, true));
      out->push_back(std::move(s));
      return EndBlock();
    }
    s.kind = Statement::Kind::kSetBlock;
    if (s.unpack) return in_.Expected("\"=\"");
    auto body = std::make_unique<TemplateExpr>();
    body->kind = TemplateExpr::Kind::kName;
    body->name = kTemplateBodyName;
    body->line = line;
    DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateFilters(in_, std::move(body)));
    DS_RETURN_IF_ERROR(EndBlock());
    s.branches.resize(1);
    DS_RETURN_IF_ERROR(Body({"endset"}, &s.branches[0].body).status());
    out->push_back(std::move(s));
    return EndBlock();
  }

  absl::Status Macro(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kMacro, line};
    DS_ASSIGN_OR_RETURN(s.name, in_.NeedName());
    DS_RETURN_IF_ERROR(in_.NeedOp("("));
    while (!in_.TakeOp(")")) {
      Statement::Parameter p;
      DS_ASSIGN_OR_RETURN(p.name, in_.NeedName());
      if (in_.TakeOp("=")) {
        DS_ASSIGN_OR_RETURN(p.fallback, ParseTemplateExpr(in_));
      }
      s.parameters.push_back(std::move(p));
      if (!in_.IsOp(")")) DS_RETURN_IF_ERROR(in_.NeedOp(","));
    }
    DS_RETURN_IF_ERROR(EndBlock());
    s.branches.resize(1);
    const int loops = std::exchange(loops_, 0);
    DS_RETURN_IF_ERROR(Body({"endmacro"}, &s.branches[0].body).status());
    loops_ = loops;
    if (in_.Peek().kind == TokenKind::kName) in_.Take();  // endmacro name
    out->push_back(std::move(s));
    return EndBlock();
  }

  TemplateTokens in_;
  int blocks_ = 0;
  int loops_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<TemplateStatement>> ParseTemplate(
    absl::string_view text) {
  DS_ASSIGN_OR_RETURN(std::vector<TemplateToken> tokens, LexTemplate(text));
  return Parser(std::move(tokens)).Run();
}

}  // namespace deepslice
