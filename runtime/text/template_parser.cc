// Statements of the template language.
#include "runtime/text/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/template_lexer.h"
#include "runtime/text/template_tokens.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Statement = TemplateStatement;
using TokenKind = TemplateToken::Kind;

class Parser {
 public:
  explicit Parser(std::vector<TemplateToken> tokens) : in_(std::move(tokens)) {}

  absl::StatusOr<std::vector<Statement>> Run() {
    std::vector<Statement> out;
    DS_RETURN_IF_ERROR(Body({}, &out).status());
    return out;
  }

 private:
  // Sets a flag while a part is parsed.
  class Scoped {
   public:
    Scoped(bool* flag, bool value) : flag_(flag), was_(*flag) { *flag = value; }
    ~Scoped() { *flag_ = was_; }

   private:
    bool* flag_;
    bool was_;
  };

  // Statements up to a block that starts with one of `ends`, whose name is
  // taken; to the end of the template when there are none.
  absl::StatusOr<std::string> Body(
      std::initializer_list<absl::string_view> ends,
      std::vector<Statement>* out) {
    if (++blocks_ > limits::kTemplateBlocks) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", in_.line(), ": more than ",
                       limits::kTemplateBlocks, " nested blocks"));
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
  // A colon before the end of a block that opens a body is ignored.
  absl::Status OpenBody() {
    in_.TakeOp(":");
    return EndBlock();
  }

  absl::Status Block(std::vector<Statement>* out) {
    const int line = in_.line();
    DS_ASSIGN_OR_RETURN(const std::string name, in_.NeedName());
    if (name == "if") return If(line, out);
    if (name == "for") return For(line, out);
    if (name == "set") return Set(line, out);
    if (name == "macro") return Macro(line, out);
    if (name == "call") return Call(line, out);
    if (name == "filter") return Filter(line, out);
    if (name == "with") return With(line, out);
    if (name == "print") return Print(line, out);
    if (name == "break" || name == "continue") {
      if (!in_loop_) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", line, ": ", name, " outside of a for"));
      }
      out->push_back(Statement{name == "break" ? Statement::Kind::kBreak
                                               : Statement::Kind::kContinue,
                               line});
      return EndBlock();
    }
    if (name == "generation") return Generation(line, out);
    if (absl::StartsWith(name, "end") || name == "else" || name == "elif") {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line, ": {% ", name,
                       " %} ends no block that is ", "open here"));
    }
    return TemplateTokens::Unknown(line,
                                   absl::StrCat("statement \"", name, "\""));
  }

  // Marks text for training; writes it as it is, in a scope of its own.
  absl::Status Generation(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kWith, line};
    DS_RETURN_IF_ERROR(OpenBody());
    s.branches.resize(1);
    const Scoped loop(&in_loop_, false);
    const auto soft = in_.Soften(false);
    DS_RETURN_IF_ERROR(Body({"endgeneration"}, &s.branches[0].body).status());
    out->push_back(std::move(s));
    return EndBlock();
  }

  absl::Status Print(int line, std::vector<Statement>* out) {
    while (in_.Peek().kind != TokenKind::kBlockEnd) {
      Statement s{Statement::Kind::kOutput, line};
      DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_));
      out->push_back(std::move(s));
      if (in_.Peek().kind != TokenKind::kBlockEnd) {
        DS_RETURN_IF_ERROR(in_.NeedOp(","));
      }
    }
    return EndBlock();
  }

  absl::Status If(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kIf, line};
    // What may not be reached may name unknown filters.
    const auto soft = in_.Soften(true);
    std::string next = "elif";
    while (next != "endif") {
      Statement::Branch branch;
      if (next == "elif") {
        DS_ASSIGN_OR_RETURN(branch.condition,
                            ParseTemplateExpr(in_, true, false));
      }
      DS_RETURN_IF_ERROR(OpenBody());
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

  absl::StatusOr<Statement::Target> OneTarget(bool attributes, int depth) {
    Statement::Target target;
    if (in_.IsOp("(") || in_.IsOp("[")) {
      const bool round = in_.Take().text == "(";
      if (depth > 8) return in_.Expected("fewer brackets");
      DS_ASSIGN_OR_RETURN(target, Targets(false, round ? ")" : "]", depth + 1));
      DS_RETURN_IF_ERROR(in_.NeedOp(round ? ")" : "]"));
      if (!round) target.unpack = true;
      return target;
    }
    const int line = in_.line();
    DS_ASSIGN_OR_RETURN(target.name, in_.NeedName());
    if (attributes && in_.TakeOp(".")) {
      DS_ASSIGN_OR_RETURN(target.attribute, in_.NeedName());
      return target;
    }
    for (absl::string_view constant :
         {"true", "false", "none", "True", "False", "None"}) {
      if (target.name == constant) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", line, ": can't assign to ", constant));
      }
    }
    return target;
  }

  // a | a, b | (a, b), up to `end`.
  absl::StatusOr<Statement::Target> Targets(bool attributes,
                                            absl::string_view end,
                                            int depth = 0) {
    DS_ASSIGN_OR_RETURN(Statement::Target first, OneTarget(attributes, depth));
    if (!in_.IsOp(",") || !first.attribute.empty()) return first;
    Statement::Target target;
    target.unpack = true;
    target.parts.push_back(std::move(first));
    while (in_.TakeOp(",")) {
      if (in_.IsOp(end) || in_.IsName(end)) break;
      DS_ASSIGN_OR_RETURN(Statement::Target next, OneTarget(false, depth));
      target.parts.push_back(std::move(next));
    }
    return target;
  }

  absl::Status For(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kFor, line};
    DS_ASSIGN_OR_RETURN(s.target, Targets(false, "in"));
    if (Names(s.target, "loop")) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line, ": can't assign to \"loop\""));
    }
    if (!in_.TakeName("in")) return in_.Expected("\"in\"");
    DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_, true, false));
    const auto soft = in_.Soften(false);
    if (in_.TakeName("if")) {
      DS_ASSIGN_OR_RETURN(s.condition, ParseTemplateExpr(in_));
    }
    s.recursive = in_.TakeName("recursive");
    DS_RETURN_IF_ERROR(OpenBody());
    s.branches.resize(2);
    const size_t start = in_.Position();
    std::string end;
    {
      const Scoped loop(&in_loop_, true);
      DS_ASSIGN_OR_RETURN(end, Body({"else", "endfor"}, &s.branches[0].body));
    }
    s.reads_loop = s.recursive || in_.NamedSince(start, "loop");
    if (end == "else") {
      DS_RETURN_IF_ERROR(OpenBody());
      DS_RETURN_IF_ERROR(Body({"endfor"}, &s.branches[1].body).status());
    }
    out->push_back(std::move(s));
    return EndBlock();
  }

  static bool Names(const Statement::Target& target, absl::string_view name) {
    return target.name == name ||
           std::any_of(target.parts.begin(), target.parts.end(),
                       [&](const auto& part) { return Names(part, name); });
  }

  absl::Status Set(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kSet, line};
    DS_ASSIGN_OR_RETURN(s.target, Targets(true, ""));
    if (in_.TakeOp("=")) {
      DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_, true));
      out->push_back(std::move(s));
      return EndBlock();
    }
    s.kind = Statement::Kind::kSetBlock;
    const auto soft = in_.Soften(false);
    DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateFilters(in_, BodyText(line)));
    DS_RETURN_IF_ERROR(OpenBody());
    s.branches.resize(1);
    DS_RETURN_IF_ERROR(Body({"endset"}, &s.branches[0].body).status());
    out->push_back(std::move(s));
    return EndBlock();
  }

  static TemplateExprPtr BodyText(int line) {
    auto body = std::make_unique<TemplateExpr>();
    body->kind = TemplateExpr::Kind::kName;
    body->name = kTemplateBodyName;
    body->line = line;
    return body;
  }

  absl::Status Filter(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kFilter, line};
    const auto soft = in_.Soften(false);
    DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateFilters(in_, BodyText(line),
                                                     /*inline_start=*/true));
    DS_RETURN_IF_ERROR(OpenBody());
    s.branches.resize(1);
    DS_RETURN_IF_ERROR(Body({"endfilter"}, &s.branches[0].body).status());
    out->push_back(std::move(s));
    return EndBlock();
  }

  absl::Status With(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kWith, line};
    const auto soft = in_.Soften(false);
    while (in_.Peek().kind != TokenKind::kBlockEnd && !in_.IsOp(":")) {
      if (!s.bindings.empty()) DS_RETURN_IF_ERROR(in_.NeedOp(","));
      DS_ASSIGN_OR_RETURN(Statement::Target target, OneTarget(false, 0));
      DS_RETURN_IF_ERROR(in_.NeedOp("="));
      DS_ASSIGN_OR_RETURN(TemplateExprPtr value, ParseTemplateExpr(in_));
      s.bindings.emplace_back(std::move(target), std::move(value));
    }
    DS_RETURN_IF_ERROR(OpenBody());
    s.branches.resize(1);
    DS_RETURN_IF_ERROR(Body({"endwith"}, &s.branches[0].body).status());
    out->push_back(std::move(s));
    return EndBlock();
  }

  // (a, b=1)
  absl::Status Signature(Statement* s) {
    DS_RETURN_IF_ERROR(in_.NeedOp("("));
    while (!in_.TakeOp(")")) {
      if (!s->parameters.empty()) DS_RETURN_IF_ERROR(in_.NeedOp(","));
      Statement::Parameter p;
      DS_ASSIGN_OR_RETURN(p.name, in_.NeedName());
      if (in_.TakeOp("=")) {
        DS_ASSIGN_OR_RETURN(p.fallback, ParseTemplateExpr(in_));
      } else if (!s->parameters.empty() && s->parameters.back().fallback) {
        return in_.Expected("a default value");
      }
      s->parameters.push_back(std::move(p));
    }
    return absl::OkStatus();
  }

  // The body of a macro or of a call block, and what it names.
  absl::Status MacroBody(absl::string_view end, Statement* s) {
    DS_RETURN_IF_ERROR(OpenBody());
    s->branches.resize(1);
    const size_t start = in_.Position();
    {
      const Scoped loop(&in_loop_, false);
      DS_RETURN_IF_ERROR(Body({end}, &s->branches[0].body).status());
    }
    const auto reads = [&](absl::string_view name) {
      return in_.NamedSince(start, name) &&
             std::none_of(s->parameters.begin(), s->parameters.end(),
                          [&](const auto& p) { return p.name == name; });
    };
    s->reads_caller = reads("caller");
    s->reads_kwargs = reads("kwargs");
    s->reads_varargs = reads("varargs");
    return EndBlock();
  }

  absl::Status Macro(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kMacro, line};
    const auto soft = in_.Soften(false);
    DS_ASSIGN_OR_RETURN(s.name, in_.NeedName());
    DS_RETURN_IF_ERROR(Signature(&s));
    DS_RETURN_IF_ERROR(MacroBody("endmacro", &s));
    out->push_back(std::move(s));
    return absl::OkStatus();
  }

  absl::Status Call(int line, std::vector<Statement>* out) {
    Statement s{Statement::Kind::kCall, line};
    const auto soft = in_.Soften(false);
    s.name = "caller";
    if (in_.IsOp("(")) DS_RETURN_IF_ERROR(Signature(&s));
    DS_ASSIGN_OR_RETURN(s.expr, ParseTemplateExpr(in_));
    if (s.expr->kind != TemplateExpr::Kind::kCall) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line, ": expected a call"));
    }
    DS_RETURN_IF_ERROR(MacroBody("endcall", &s));
    out->push_back(std::move(s));
    return absl::OkStatus();
  }

  TemplateTokens in_;
  int blocks_ = 0;
  bool in_loop_ = false;
};

}  // namespace

absl::StatusOr<std::vector<TemplateStatement>> ParseTemplate(
    absl::string_view text) {
  DS_ASSIGN_OR_RETURN(std::vector<TemplateToken> tokens, LexTemplate(text));
  return Parser(std::move(tokens)).Run();
}

}  // namespace deepslice
