// Expressions of the template interpreter.
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

ValueOr TemplateRunner::Eval(const Expr& e, Scope& scope) {
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
      return Located(e.line,
                     meter_.List(std::move(items), e.kind == Expr::Kind::kTuple
                                                       ? Value::Shape::kTuple
                                                       : Value::Shape::kList));
    }
    case Expr::Kind::kMap:
      return MapLiteral(e, scope);
    case Expr::Kind::kAttribute: {
      DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
      if (v.is_map() || v.kind() == Value::Kind::kNamespace) {
        DS_RETURN_IF_ERROR(At(e.line, meter_.Charge(v.as_map().size() / 16)));
      }
      return Located(e.line, TemplateAttribute(v, e.name));
    }
    case Expr::Kind::kIndex:
      return Index(e, scope);
    case Expr::Kind::kSlice:
      return Slice(e, scope);
    case Expr::Kind::kCall:
      return CallAny(e, scope, nullptr);
    case Expr::Kind::kFilter:
    case Expr::Kind::kTest: {
      if (!(e.kind == Expr::Kind::kFilter ? IsTemplateFilter(e.name)
                                          : IsTemplateTest(e.name))) {
        return absl::UnimplementedError(
            absl::StrCat("line ", e.line, ": ",
                         e.kind == Expr::Kind::kFilter ? "filter" : "test",
                         " \"", e.name, "\" is not supported"));
      }
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
      if (v.kind() == Value::Kind::kFloat) {  // 0 - 0.0 would lose the sign
        return Value::Float(minus ? -v.as_double() : v.as_double());
      }
      return Located(
          e.line, TemplateBinary(minus ? "-" : "+", Value::Int(0), v, meter_));
    }
    case Expr::Kind::kSpread:
    case Expr::Kind::kNamedSpread:
      return Error(e.line, "\"*\" outside of a call");  // the parser's word
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

ValueOr TemplateRunner::MapLiteral(const Expr& e, Scope& scope) {
  Value::Map map;
  for (size_t i = 0; i + 1 < e.args.size(); i += 2) {
    DS_ASSIGN_OR_RETURN(const Value key, Eval(*e.args[i], scope));
    DS_ASSIGN_OR_RETURN(Value value, Eval(*e.args[i + 1], scope));
    if (!IsTemplateKey(key)) {
      return Error(e.line, absl::StrCat(key.KindName(), " can't be a key"));
    }
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

ValueOr TemplateRunner::Index(const Expr& e, Scope& scope) {
  DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
  DS_ASSIGN_OR_RETURN(const Value index, Eval(*e.args[1], scope));
  return Located(e.line, TemplateIndex(v, index, meter_));
}

ValueOr TemplateRunner::Slice(const Expr& e, Scope& scope) {
  DS_ASSIGN_OR_RETURN(const Value v, Eval(*e.args[0], scope));
  Value bounds[3] = {Value::None(), Value::None(), Value::None()};
  for (int i = 0; i < 3; ++i) {
    if (!e.args[i + 1]) continue;
    DS_ASSIGN_OR_RETURN(bounds[i], Eval(*e.args[i + 1], scope));
  }
  return Located(e.line,
                 TemplateSlice(v, bounds[0], bounds[1], bounds[2], meter_));
}

ValueOr TemplateRunner::Compare(const Expr& e, Scope& scope) {
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

}  // namespace deepslice
