// Calls of the template interpreter: functions, methods, macros, loops.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_runner.h"
#include "schema/base/status_macros.h"

namespace deepslice {

using Value = TemplateValue;
using ValueOr = absl::StatusOr<TemplateValue>;

namespace {

const Value* FindNamed(const TemplateArgs& args, absl::string_view name) {
  for (const auto& [key, value] : args.named) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace

ValueOr TemplateRunner::Recurse(int line, const TemplateLoop& loop,
                                const TemplateArgs& args) {
  if (args.positional.size() != 1 || !args.named.empty()) {
    return Error(line, "loop() takes what is to be walked over");
  }
  for (const ActiveLoop& active : active_loops_) {
    if (active.loop != &loop) continue;
    const ActiveLoop found = active;  // the vector may grow
    MarkedText saved = std::exchange(out_, MarkedText());
    const auto flow = Passes(*found.statement, *found.scope, args.positional[0],
                             loop.depth0() + 1);
    MarkedText text = std::exchange(out_, std::move(saved));
    DS_RETURN_IF_ERROR(flow.status());
    return Value::String(std::move(text));
  }
  return Error(line, "loop() is called outside of a recursive for");
}

absl::StatusOr<Value::List> TemplateRunner::EvalAll(
    const std::vector<TemplateExprPtr>& args, size_t first, Scope& scope) {
  Value::List out;
  for (size_t i = first; i < args.size(); ++i) {
    DS_ASSIGN_OR_RETURN(Value v, Eval(*args[i], scope));
    out.push_back(std::move(v));
  }
  return out;
}

absl::StatusOr<TemplateArgs> TemplateRunner::Arguments(const Expr& e,
                                                       Scope& scope) {
  TemplateArgs out;
  const Expr* named_spread = nullptr;
  for (size_t i = 1; i < e.args.size(); ++i) {
    const Expr& arg = *e.args[i];
    if (arg.kind == Expr::Kind::kNamedSpread) {
      named_spread = &arg;
      continue;
    }
    const bool spread = arg.kind == Expr::Kind::kSpread;
    DS_ASSIGN_OR_RETURN(Value v, Eval(spread ? *arg.args[0] : arg, scope));
    if (!spread) {
      out.positional.push_back(std::move(v));
      continue;
    }
    auto items = TemplateItems(v, meter_);
    if (!items.ok()) return At(e.line, items.status());
    for (Value& item : *items) out.positional.push_back(std::move(item));
  }
  for (const auto& [name, expr] : e.named) {
    DS_ASSIGN_OR_RETURN(Value v, Eval(*expr, scope));
    out.named.emplace_back(name, std::move(v));
  }
  if (!named_spread) return out;
  DS_ASSIGN_OR_RETURN(const Value map, Eval(*named_spread->args[0], scope));
  if (!map.is_map()) {
    return Error(e.line,
                 absl::StrCat("\"**\" needs a mapping, got ", map.KindName()));
  }
  DS_RETURN_IF_ERROR(At(e.line, meter_.Charge(map.as_map().size())));
  for (const auto& [key, value] : map.as_map()) {
    for (const auto& entry : out.named) {
      if (entry.first == key.text) {
        return Error(
            e.line, absl::StrCat("argument \"", key.text, "\" is given twice"));
      }
    }
    out.named.emplace_back(key.text, value);
  }
  return out;
}

ValueOr TemplateRunner::CallAny(const Expr& e, Scope& scope,
                                const Value* caller) {
  DS_ASSIGN_OR_RETURN(const Value function, Eval(*e.args[0], scope));
  DS_ASSIGN_OR_RETURN(TemplateArgs args, Arguments(e, scope));
  if (caller) {
    for (const auto& entry : args.named) {
      if (entry.first == "caller") {
        return Error(e.line, "argument \"caller\" is given twice");
      }
    }
    args.named.emplace_back("caller", *caller);
  }
  switch (function.kind()) {
    case Value::Kind::kMacro:
      return CallMacro(e.line, *function.as_macro(), std::move(args));
    case Value::Kind::kFunction:
      return Located(e.line,
                     CallTemplateFunction(function.name(), args, now_, meter_));
    case Value::Kind::kMethod:
      return Located(
          e.line, CallTemplateMethod(*function.as_method().subject,
                                     function.as_method().name, args, meter_));
    case Value::Kind::kLoop:
      return Recurse(e.line, function.as_loop(), args);
    case Value::Kind::kState:
      if (function.as_state().name == "joiner") {
        if (!args.positional.empty() || !args.named.empty()) {
          return Error(e.line, "a joiner takes no arguments");
        }
        Value::State& state = function.as_state();
        if (std::exchange(state.at, 1) == 0) return Value::String("");
        return (*state.items)[0];
      }
      return Error(e.line, "a cycler can't be called; use .next()");
    case Value::Kind::kUndefined:
      if (function.name() == "lipsum") {
        return absl::UnimplementedError(absl::StrCat(
            "line ", e.line, ": function \"lipsum\" is not supported"));
      }
      return Error(e.line,
                   absl::StrCat("\"", function.name(), "\" is undefined"));
    default:
      return Error(e.line,
                   absl::StrCat(function.KindName(), " can't be called"));
  }
}

ValueOr TemplateRunner::CallMacro(int line, const Statement& macro,
                                  TemplateArgs args) {
  Scope* parent = nullptr;
  for (const auto& [known, scope] : macro_scopes_) {
    if (known == &macro) parent = scope;
  }
  if (!parent) {
    return Error(line, absl::StrCat("macro \"", macro.name,
                                    "\" is called outside of its block"));
  }
  const size_t count = macro.parameters.size();
  if (args.positional.size() > count && !macro.reads_varargs) {
    return Error(line, absl::StrCat("macro \"", macro.name, "\" takes ", count,
                                    " arguments"));
  }
  Scope scope{parent, {}};
  std::vector<absl::string_view> taken;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i].name;
    if (i < args.positional.size()) {
      scope.Set(name, args.positional[i]);
    } else if (const Value* given = FindNamed(args, name)) {
      scope.Set(name, *given);
      taken.push_back(name);
    } else {
      // Until its default is found out, which may name other parameters.
      scope.Set(name, Value::Undefined(name));
    }
  }
  if (macro.reads_caller) {
    const Value* given = FindNamed(args, "caller");
    scope.Set("caller", given ? *given : Value::Undefined("caller"));
    taken.push_back("caller");
  }
  DS_RETURN_IF_ERROR(ExtraArguments(line, macro, args, taken, &scope));
  for (size_t i = args.positional.size(); i < count; ++i) {
    const Statement::Parameter& p = macro.parameters[i];
    if (!p.fallback || FindNamed(args, p.name)) continue;
    DS_ASSIGN_OR_RETURN(Value v, Eval(*p.fallback, scope));
    scope.Set(p.name, std::move(v));
  }
  Flow flow;
  DS_ASSIGN_OR_RETURN(MarkedText text,
                      Capture(macro.branches[0].body, scope, &flow));
  return Value::String(std::move(text));
}

absl::Status TemplateRunner::ExtraArguments(
    int line, const Statement& macro, const TemplateArgs& args,
    const std::vector<absl::string_view>& taken, Scope* scope) {
  Value::Map kwargs;
  for (const auto& [name, value] : args.named) {
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    if (!macro.reads_kwargs) {
      return Error(line, absl::StrCat("macro \"", macro.name,
                                      "\" has no parameter \"", name, "\""));
    }
    kwargs.emplace_back(MarkedText(name), value);
  }
  if (macro.reads_kwargs) {
    DS_ASSIGN_OR_RETURN(Value v, meter_.Map(std::move(kwargs)));
    scope->Set("kwargs", std::move(v));
  }
  if (!macro.reads_varargs) return absl::OkStatus();
  const size_t count = macro.parameters.size();
  Value::List rest;
  for (size_t i = count; i < args.positional.size(); ++i) {
    rest.push_back(args.positional[i]);
  }
  DS_ASSIGN_OR_RETURN(Value v,
                      meter_.List(std::move(rest), Value::Shape::kTuple));
  scope->Set("varargs", std::move(v));
  return absl::OkStatus();
}

}  // namespace deepslice
