// The template interpreter: scopes, statements, expressions, calls.
#include "runtime/text/template_eval.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using ValueOr = absl::StatusOr<TemplateValue>;
using Expr = TemplateExpr;
using Statement = TemplateStatement;

// Walks in each other. A level takes up to 4 KiB of stack.
constexpr int kMaxDepth = 400;

class Runner {
 public:
  explicit Runner(const Value::Map& variables) {
    for (const auto& [name, value] : variables) {
      globals_.names.emplace_back(name.text, value);
    }
    for (absl::string_view name : kTemplateFunctions) {
      globals_.names.emplace_back(std::string(name), Value::Function(name));
    }
  }

  absl::StatusOr<MarkedText> Run(const std::vector<Statement>& statements) {
    DS_RETURN_IF_ERROR(Body(statements, globals_).status());
    return std::move(out_);
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<std::string, Value>> names;

    void Set(absl::string_view name, Value v) {
      for (auto& entry : names) {
        if (entry.first == name) {
          entry.second = std::move(v);
          return;
        }
      }
      names.emplace_back(std::string(name), std::move(v));
    }
  };

  // Counts how deep walks are nested.
  class Depth {
   public:
    explicit Depth(int* depth) : depth_(depth) { ++*depth_; }
    ~Depth() { --*depth_; }

   private:
    int* depth_;
  };

  static absl::Status At(int line, const absl::Status& status) {
    // The template's own words, from raise_exception, stay as they are.
    if (absl::IsFailedPrecondition(status)) return status;
    return Annotate(status, "line ", line);
  }
  static absl::Status Error(int line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }

  absl::Status Enter(int line) {
    if (depth_ > kMaxDepth) {
      return absl::ResourceExhaustedError(
          absl::StrCat("line ", line, ": the chat template nests more than ",
                       kMaxDepth, " levels deep; use another template"));
    }
    return At(line, meter_.Charge(1));
  }

  absl::Status Write(int line, const MarkedText& text) {
    out_.Append(text);
    return At(line,
              meter_.ChargeText(out_.size() > kOutputBytes ? out_.size()
                                                           : text.size()));
  }

  // The value of a name, or undefined. A macro's scope has the one of its
  // definition as parent, so it sees what stands there when it is called.
  ValueOr Lookup(const Scope& scope, absl::string_view name) {
    for (const Scope* s = &scope; s; s = s->parent) {
      DS_RETURN_IF_ERROR(meter_.Charge(s->names.size() / 16));
      for (const auto& entry : s->names) {
        if (entry.first == name) return entry.second;
      }
    }
    return Value::Undefined(name);
  }

  absl::StatusOr<Flow> Body(const std::vector<Statement>& body, Scope& scope) {
    for (const Statement& s : body) {
      DS_ASSIGN_OR_RETURN(const Flow flow, Step(s, scope));
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  absl::StatusOr<Flow> Step(const Statement& s, Scope& scope) {
    const Depth depth(&depth_);
    DS_RETURN_IF_ERROR(Enter(s.line));
    switch (s.kind) {
      case Statement::Kind::kText:
        DS_RETURN_IF_ERROR(Write(s.line, MarkedText(s.text)));
        return Flow::kNext;
      case Statement::Kind::kOutput: {
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*s.expr, scope));
        auto text = meter_.Print(v);
        if (!text.ok()) return At(s.line, text.status());
        DS_RETURN_IF_ERROR(Write(s.line, *text));
        return Flow::kNext;
      }
      case Statement::Kind::kIf:
        for (const Statement::Branch& branch : s.branches) {
          bool taken = true;
          if (branch.condition) {
            DS_ASSIGN_OR_RETURN(const Value v, Eval(*branch.condition, scope));
            taken = v.Truthy();
          }
          if (taken) return Body(branch.body, scope);
        }
        return Flow::kNext;
      case Statement::Kind::kFor:
        return For(s, scope);
      case Statement::Kind::kSet: {
        DS_ASSIGN_OR_RETURN(Value v, Eval(*s.expr, scope));
        DS_RETURN_IF_ERROR(Assign(s, std::move(v), scope));
        return Flow::kNext;
      }
      case Statement::Kind::kSetBlock: {
        DS_ASSIGN_OR_RETURN(Value body, Capture(s.branches[0].body, scope));
        Scope inner{&scope, {}};
        inner.Set(kTemplateBodyName, std::move(body));
        DS_ASSIGN_OR_RETURN(Value v, Eval(*s.expr, inner));
        DS_RETURN_IF_ERROR(Assign(s, std::move(v), scope));
        return Flow::kNext;
      }
      case Statement::Kind::kMacro:
        scope.Set(s.name, Value::Macro(&s));
        macro_scopes_.emplace_back(&s, &scope);
        return Flow::kNext;
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  // What `body` writes.
  ValueOr Capture(const std::vector<Statement>& body, Scope& scope) {
    MarkedText saved = std::exchange(out_, MarkedText());
    Scope inner{&scope, {}};
    const auto flow = Body(body, inner);
    MarkedText text = std::exchange(out_, std::move(saved));
    ForgetMacros(&inner);
    DS_RETURN_IF_ERROR(flow.status());
    return Value::String(std::move(text));
  }

  // Macros can't be called after the scope of their definition is gone.
  void ForgetMacros(const Scope* scope) {
    while (!macro_scopes_.empty() && macro_scopes_.back().second == scope) {
      macro_scopes_.pop_back();
    }
  }

  absl::Status Assign(const Statement& s, Value v, Scope& scope) {
    if (!s.attribute.empty()) {
      DS_ASSIGN_OR_RETURN(const Value target, Lookup(scope, s.name));
      if (target.kind() != Value::Kind::kNamespace) {
        return Error(s.line,
                     absl::StrCat("\"", s.name, "\" is ", target.KindName(),
                                  "; only a namespace has attributes "
                                  "that can be set"));
      }
      if (v.holds_namespace()) {
        return absl::UnimplementedError(
            absl::StrCat("line ", s.line,
                         ": a namespace inside a namespace is not supported"));
      }
      DS_RETURN_IF_ERROR(
          At(s.line, meter_.Charge(target.as_map().size() / 16)));
      target.SetAttribute(s.attribute, std::move(v));
      return absl::OkStatus();
    }
    return Bind(s, std::move(v), scope);
  }

  // Gives the targets of a set or for their values.
  absl::Status Bind(const Statement& s, Value v, Scope& scope) {
    if (!s.unpack) {
      scope.Set(s.targets[0], std::move(v));
      return absl::OkStatus();
    }
    auto items = TemplateItems(v, meter_);
    if (!items.ok()) return At(s.line, items.status());
    if (items->size() != s.targets.size()) {
      return Error(s.line, absl::StrCat(items->size(), " values for ",
                                        s.targets.size(), " names"));
    }
    for (size_t i = 0; i < items->size(); ++i) {
      scope.Set(s.targets[i], std::move((*items)[i]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Flow> For(const Statement& s, Scope& scope) {
    DS_ASSIGN_OR_RETURN(const Value over, Eval(*s.expr, scope));
    auto items = TemplateItems(over, meter_);
    if (!items.ok()) return At(s.line, items.status());
    if (s.condition) {
      Value::List kept;
      for (Value& item : *items) {
        Scope inner{&scope, {}};
        DS_RETURN_IF_ERROR(Bind(s, item, inner));
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*s.condition, inner));
        if (v.Truthy()) kept.push_back(std::move(item));
      }
      *items = std::move(kept);
    }
    if (items->empty()) {
      Scope inner{&scope, {}};
      const auto flow = Body(s.branches[1].body, inner);
      ForgetMacros(&inner);
      return flow;
    }
    Value::Loop loop;
    loop.items = std::make_shared<Value::List>(*std::move(items));
    return Passes(s, scope, std::move(loop));
  }

  absl::StatusOr<Flow> Passes(const Statement& s, Scope& scope,
                              Value::Loop loop) {
    // What every pass of a loop would weigh is found out once.
    const Value whole = Value::MakeLoop(loop);
    DS_RETURN_IF_ERROR(At(s.line, meter_.Checked(whole).status()));
    const size_t size = loop.items->size();
    for (size_t i = 0; i < size; ++i) {
      Scope inner{&scope, {}};
      inner.Set("loop", whole.AtPass(static_cast<int64_t>(i)));
      DS_RETURN_IF_ERROR(Bind(s, (*loop.items)[i], inner));
      const auto flow = Body(s.branches[0].body, inner);
      ForgetMacros(&inner);
      DS_RETURN_IF_ERROR(flow.status());
      if (*flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  ValueOr Eval(const Expr& e, Scope& scope) {
    const Depth depth(&depth_);
    DS_RETURN_IF_ERROR(Enter(e.line));
    switch (e.kind) {
      case Expr::Kind::kLiteral:
        return e.literal;
      case Expr::Kind::kName:
        return Lookup(scope, e.name);
      case Expr::Kind::kList:
      case Expr::Kind::kTuple: {
        DS_ASSIGN_OR_RETURN(Value::List items, EvalAll(e.args, 0, scope));
        return Located(e.line, meter_.List(std::move(items),
                                           e.kind == Expr::Kind::kTuple));
      }
      case Expr::Kind::kMap:
        return MapLiteral(e, scope);
      case Expr::Kind::kAttribute: {
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
        return Located(e.line, TemplateAttribute(v, e.name));
      }
      case Expr::Kind::kIndex:
        return Index(e, scope);
      case Expr::Kind::kSlice:
        return Slice(e, scope);
      case Expr::Kind::kCall:
        return CallAny(e, scope);
      case Expr::Kind::kFilter:
      case Expr::Kind::kTest: {
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
        DS_ASSIGN_OR_RETURN(const TemplateArgs args, Arguments(e, scope));
        if (e.kind == Expr::Kind::kFilter) {
          return Located(e.line, ApplyTemplateFilter(e.name, v, args, meter_));
        }
        const auto passes = ApplyTemplateTest(e.name, v, args, meter_);
        if (!passes.ok()) return At(e.line, passes.status());
        return Value::Bool(*passes);
      }
      case Expr::Kind::kNot: {
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
        return Value::Bool(!v.Truthy());
      }
      case Expr::Kind::kNegative:
      case Expr::Kind::kPositive: {
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
        const bool minus = e.kind == Expr::Kind::kNegative;
        return Located(e.line, TemplateBinary(minus ? "-" : "+", Value::Int(0),
                                              v, meter_));
      }
      case Expr::Kind::kBinary: {
        DS_ASSIGN_OR_RETURN(const Value a, Eval(*e.args[0], scope));
        DS_ASSIGN_OR_RETURN(const Value b, Eval(*e.args[1], scope));
        return Located(e.line, TemplateBinary(e.name, a, b, meter_));
      }
      case Expr::Kind::kCompare:
        return Compare(e, scope);
      case Expr::Kind::kAnd:
      case Expr::Kind::kOr: {
        DS_ASSIGN_OR_RETURN(Value a, Eval(*e.args[0], scope));
        if (a.Truthy() == (e.kind == Expr::Kind::kOr)) return a;
        return Eval(*e.args[1], scope);
      }
      case Expr::Kind::kConditional: {
        DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[1], scope));
        if (v.Truthy()) return Eval(*e.args[0], scope);
        if (e.args[2]) return Eval(*e.args[2], scope);
        return Value::Undefined("an if without else");
      }
    }
    return Value();
  }

  static ValueOr Located(int line, ValueOr v) {
    if (!v.ok()) return At(line, v.status());
    return v;
  }

  absl::StatusOr<Value::List> EvalAll(const std::vector<TemplateExprPtr>& args,
                                      size_t first, Scope& scope) {
    Value::List out;
    for (size_t i = first; i < args.size(); ++i) {
      DS_ASSIGN_OR_RETURN(Value v, Eval(*args[i], scope));
      out.push_back(std::move(v));
    }
    return out;
  }

  // args[1...] and named of a call, filter or test.
  absl::StatusOr<TemplateArgs> Arguments(const Expr& e, Scope& scope) {
    TemplateArgs out;
    DS_ASSIGN_OR_RETURN(out.positional, EvalAll(e.args, 1, scope));
    for (const auto& [name, expr] : e.named) {
      DS_ASSIGN_OR_RETURN(Value v, Eval(*expr, scope));
      out.named.emplace_back(name, std::move(v));
    }
    return out;
  }

  ValueOr MapLiteral(const Expr& e, Scope& scope) {
    Value::Map map;
    for (size_t i = 0; i + 1 < e.args.size(); i += 2) {
      DS_ASSIGN_OR_RETURN(const Value key, Eval(*e.args[i], scope));
      DS_ASSIGN_OR_RETURN(Value value, Eval(*e.args[i + 1], scope));
      if (!key.is_string()) {
        return absl::UnimplementedError(
            absl::StrCat("line ", e.line, ": ", key.KindName(),
                         " as a key is not supported; only a string is"));
      }
      bool replaced = false;
      for (auto& entry : map) {
        if (entry.first.text != key.as_string().text) continue;
        entry.second = value;
        replaced = true;
      }
      if (!replaced) map.emplace_back(key.as_string(), std::move(value));
      DS_RETURN_IF_ERROR(At(e.line, meter_.Charge(map.size() / 16)));
    }
    return Located(e.line, meter_.Map(std::move(map)));
  }

  ValueOr Index(const Expr& e, Scope& scope) {
    DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
    DS_ASSIGN_OR_RETURN(const Value index, Eval(*e.args[1], scope));
    return Located(e.line, TemplateIndex(v, index, meter_));
  }

  ValueOr Slice(const Expr& e, Scope& scope) {
    DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
    Value bounds[3] = {Value::None(), Value::None(), Value::None()};
    for (int i = 0; i < 3; ++i) {
      if (!e.args[i + 1]) continue;
      DS_ASSIGN_OR_RETURN(bounds[i], Eval(*e.args[i + 1], scope));
    }
    return Located(e.line,
                   TemplateSlice(v, bounds[0], bounds[1], bounds[2], meter_));
  }

  ValueOr Compare(const Expr& e, Scope& scope) {
    DS_ASSIGN_OR_RETURN(Value left, Eval(*e.args[0], scope));
    for (size_t i = 0; i < e.ops.size(); ++i) {
      DS_ASSIGN_OR_RETURN(Value right, Eval(*e.args[i + 1], scope));
      const auto holds = TemplateCompare(e.ops[i], left, right, meter_);
      if (!holds.ok()) return At(e.line, holds.status());
      if (!*holds) return Value::Bool(false);
      left = std::move(right);
    }
    return Value::Bool(true);
  }

  ValueOr CallAny(const Expr& e, Scope& scope) {
    const Expr& callee = *e.args[0];
    Value function;
    if (callee.kind == Expr::Kind::kAttribute) {
      DS_ASSIGN_OR_RETURN(const Value subject, Eval(*callee.args[0], scope));
      const Value* member = subject.Find(callee.name);
      if (!member || subject.is_map()) {
        DS_ASSIGN_OR_RETURN(const TemplateArgs args, Arguments(e, scope));
        return Located(e.line,
                       CallTemplateMethod(subject, callee.name, args, meter_));
      }
      function = *member;
    } else {
      DS_ASSIGN_OR_RETURN(function, Eval(callee, scope));
    }
    DS_ASSIGN_OR_RETURN(TemplateArgs args, Arguments(e, scope));
    switch (function.kind()) {
      case Value::Kind::kMacro:
        return CallMacro(e.line, *function.as_macro(), std::move(args));
      case Value::Kind::kFunction:
        return Located(e.line,
                       CallTemplateFunction(function.name(), args, meter_));
      case Value::Kind::kUndefined:
        for (absl::string_view known :
             {"strftime_now", "cycler", "joiner", "lipsum", "caller"}) {
          if (function.name() != known) continue;
          return absl::UnimplementedError(absl::StrCat(
              "line ", e.line, ": function \"", known, "\" is not supported"));
        }
        return Error(e.line,
                     absl::StrCat("\"", function.name(), "\" is undefined"));
      default:
        return Error(e.line,
                     absl::StrCat(function.KindName(), " can't be called"));
    }
  }

  ValueOr CallMacro(int line, const Statement& macro, TemplateArgs args) {
    Scope* parent = nullptr;
    for (const auto& [known, scope] : macro_scopes_) {
      if (known == &macro) parent = scope;
    }
    if (!parent) {
      return Error(line, absl::StrCat("macro \"", macro.name,
                                      "\" is called outside of its block"));
    }
    if (args.positional.size() > macro.parameters.size()) {
      return Error(line, absl::StrCat("macro \"", macro.name, "\" takes ",
                                      macro.parameters.size(), " arguments"));
    }
    Scope scope{parent, {}};
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const Statement::Parameter& p = macro.parameters[i];
      if (const Value* given = args.Get(i, p.name)) {
        scope.Set(p.name, *given);
      } else if (p.fallback) {
        DS_ASSIGN_OR_RETURN(Value v, Eval(*p.fallback, scope));
        scope.Set(p.name, std::move(v));
      } else {
        scope.Set(p.name, Value::Undefined(p.name));
      }
    }
    for (const auto& [name, value] : args.named) {
      bool known = false;
      for (const auto& p : macro.parameters) known = known || p.name == name;
      if (!known) {
        return Error(line, absl::StrCat("macro \"", macro.name,
                                        "\" has no parameter \"", name, "\""));
      }
    }
    return Capture(macro.branches[0].body, scope);
  }

  static constexpr size_t kOutputBytes =
      static_cast<size_t>(limits::kTemplateOutputBytes);

  TemplateMeter meter_;
  Scope globals_;
  MarkedText out_;
  int depth_ = 0;
  std::vector<std::pair<const Statement*, Scope*>> macro_scopes_;
};

}  // namespace

absl::StatusOr<MarkedText> RunTemplate(
    const std::vector<TemplateStatement>& statements,
    const TemplateValue::Map& variables) {
  return Runner(variables).Run(statements);
}

}  // namespace deepslice
