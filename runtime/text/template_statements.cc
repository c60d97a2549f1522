// Statements of the template interpreter.
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

absl::StatusOr<MarkedText> TemplateRunner::Run(
    const std::vector<Statement>& statements) {
  DS_RETURN_IF_ERROR(Body(statements, globals_).status());
  return std::move(out_);
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::Body(
    const std::vector<Statement>& body, Scope& scope) {
  for (const Statement& s : body) {
    DS_ASSIGN_OR_RETURN(const Flow flow, Step(s, scope));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::Step(const Statement& s,
                                                          Scope& scope) {
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
      DS_RETURN_IF_ERROR(Bind(s.line, s.target, std::move(v), scope));
      return Flow::kNext;
    }
    case Statement::Kind::kSetBlock:
    case Statement::Kind::kFilter:
      return Filtered(s, scope);
    case Statement::Kind::kCall:
      DS_RETURN_IF_ERROR(CallBlock(s, scope));
      return Flow::kNext;
    case Statement::Kind::kWith:
      return With(s, scope);
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

absl::StatusOr<MarkedText> TemplateRunner::Capture(
    const std::vector<Statement>& body, Scope& inner, Flow* flow) {
  MarkedText saved = std::exchange(out_, MarkedText());
  const auto ended = Body(body, inner);
  MarkedText text = std::exchange(out_, std::move(saved));
  ForgetMacros(&inner);
  DS_RETURN_IF_ERROR(ended.status());
  *flow = *ended;
  return text;
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::Filtered(
    const Statement& s, Scope& scope) {
  Scope inner{&scope, {}};
  Flow flow = Flow::kNext;
  DS_ASSIGN_OR_RETURN(MarkedText body,
                      Capture(s.branches[0].body, inner, &flow));
  if (flow != Flow::kNext) return flow;
  inner.Set(kTemplateBodyName, Value::String(std::move(body)));
  DS_ASSIGN_OR_RETURN(Value v, Eval(*s.expr, inner));
  if (s.kind == Statement::Kind::kSetBlock) {
    DS_RETURN_IF_ERROR(Bind(s.line, s.target, std::move(v), scope));
    return Flow::kNext;
  }
  auto text = meter_.Print(v);
  if (!text.ok()) return At(s.line, text.status());
  DS_RETURN_IF_ERROR(Write(s.line, *text));
  return Flow::kNext;
}

absl::Status TemplateRunner::CallBlock(const Statement& s, Scope& scope) {
  macro_scopes_.emplace_back(&s, &scope);
  const Value caller = Value::Macro(&s);
  const auto v = CallAny(*s.expr, scope, &caller);
  macro_scopes_.pop_back();
  DS_RETURN_IF_ERROR(v.status());
  const auto text = meter_.Print(*v);
  if (!text.ok()) return At(s.line, text.status());
  return Write(s.line, *text);
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::With(const Statement& s,
                                                          Scope& scope) {
  Scope inner{&scope, {}};
  // Values are those from outside, whatever is bound before them.
  for (const auto& [target, expr] : s.bindings) {
    DS_ASSIGN_OR_RETURN(Value v, Eval(*expr, scope));
    DS_RETURN_IF_ERROR(Bind(s.line, target, std::move(v), inner));
  }
  const auto flow = Body(s.branches[0].body, inner);
  ForgetMacros(&inner);
  return flow;
}

void TemplateRunner::ForgetMacros(const Scope* scope) {
  while (!macro_scopes_.empty() && macro_scopes_.back().second == scope) {
    macro_scopes_.pop_back();
  }
}

absl::Status TemplateRunner::Bind(int line, const Statement::Target& target,
                                  Value v, Scope& scope) {
  if (!target.attribute.empty()) {
    return SetAttribute(line, target, std::move(v), scope);
  }
  if (!target.unpack) {
    scope.Set(target.name, std::move(v));
    return absl::OkStatus();
  }
  auto items = TemplateItems(v, meter_);
  if (!items.ok()) return At(line, items.status());
  if (items->size() != target.parts.size()) {
    return Error(line, absl::StrCat(items->size(), " values for ",
                                    target.parts.size(), " names"));
  }
  for (size_t i = 0; i < items->size(); ++i) {
    DS_RETURN_IF_ERROR(
        Bind(line, target.parts[i], std::move((*items)[i]), scope));
  }
  return absl::OkStatus();
}

absl::Status TemplateRunner::SetAttribute(int line,
                                          const Statement::Target& target,
                                          Value v, Scope& scope) {
  DS_ASSIGN_OR_RETURN(const Value space, Lookup(scope, target.name));
  if (space.kind() != Value::Kind::kNamespace) {
    return Error(line,
                 absl::StrCat("\"", target.name, "\" is ", space.KindName(),
                              "; only a namespace has attributes "
                              "that can be set"));
  }
  if (target.attribute[0] == '_') {
    return Error(line, absl::StrCat("namespace attribute \"", target.attribute,
                                    "\" starts with an underscore"));
  }
  if (v.holds_mutable()) {
    return absl::UnimplementedError(absl::StrCat(
        "line ", line, ": ", v.KindName(),
        " that holds a namespace, inside a namespace, is not supported"));
  }
  DS_RETURN_IF_ERROR(At(line, meter_.Charge(space.as_map().size() / 16)));
  space.SetAttribute(target.attribute, std::move(v));
  return absl::OkStatus();
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::For(const Statement& s,
                                                         Scope& scope) {
  DS_ASSIGN_OR_RETURN(const Value over, Eval(*s.expr, scope));
  return Passes(s, scope, over, 0);
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::Passes(const Statement& s,
                                                            Scope& scope,
                                                            const Value& over,
                                                            int64_t depth0) {
  auto cursor = std::make_shared<TemplateCursor>(over);
  const auto next = [this, &s, &scope,
                     cursor]() -> absl::StatusOr<std::optional<Value>> {
    while (true) {
      auto item = cursor->Next(meter_);
      if (!item.ok()) return At(s.line, item.status());
      if (!*item || !s.condition) return item;
      Scope inner{&scope, {}};
      DS_RETURN_IF_ERROR(Bind(s.line, s.target, **item, inner));
      DS_ASSIGN_OR_RETURN(const Value v, Eval(*s.condition, inner));
      if (v.Truthy()) return item;
    }
  };
  auto loop = std::make_shared<TemplateLoop>(
      next, s.condition ? std::nullopt : TemplateLength(over), depth0);
  const auto flow = Walk(s, scope, loop);
  loop->End();
  if (!active_loops_.empty() && active_loops_.back().loop == loop.get()) {
    active_loops_.pop_back();
  }
  return flow;
}

absl::StatusOr<TemplateRunner::Flow> TemplateRunner::Walk(
    const Statement& s, Scope& scope,
    const std::shared_ptr<TemplateLoop>& loop) {
  const Value self = Value::MakeLoop(loop);
  if (s.recursive) active_loops_.push_back({loop.get(), &s, &scope});
  bool completed = false;  // a pass, to its end
  while (true) {
    DS_ASSIGN_OR_RETURN(
        auto item, s.reads_loop ? loop->Advance() : loop->AdvanceBlindly());
    if (!item) break;
    Scope inner{&scope, {}};
    if (s.reads_loop) inner.Set("loop", self);
    DS_RETURN_IF_ERROR(Bind(s.line, s.target, *std::move(item), inner));
    const auto flow = Body(s.branches[0].body, inner);
    ForgetMacros(&inner);
    DS_RETURN_IF_ERROR(flow.status());
    if (*flow == Flow::kNext) completed = true;
    if (*flow == Flow::kBreak) break;
  }
  // As jinja2: a loop whose passes all break or continue counts as empty.
  if (completed) return Flow::kNext;
  Scope inner{&scope, {}};
  const auto flow = Body(s.branches[1].body, inner);
  ForgetMacros(&inner);
  return flow;
}

}  // namespace deepslice
