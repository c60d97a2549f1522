// What runs a parsed template: its bounds, errors, names and output.
#include "runtime/text/template_eval.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_runner.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
using Value = TemplateValue;
using ValueOr = absl::StatusOr<TemplateValue>;

TemplateRunner::TemplateRunner(const Value::Map& variables, absl::Time now)
    : now_(now) {
  for (const auto& [name, value] : variables) {
    globals_.names.emplace_back(name.text, value);
  }
  for (absl::string_view name : kTemplateFunctions) {
    globals_.names.emplace_back(std::string(name), Value::Function(name));
  }
}

absl::Status TemplateRunner::At(int line, const absl::Status& status) {
  // The template's own words, from raise_exception, stay as they are.
  if (absl::IsFailedPrecondition(status)) return status;
  return Annotate(status, "line ", line);
}

absl::Status TemplateRunner::Error(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

absl::Status TemplateRunner::Enter(int line) {
  // A level takes up to 4 KiB of stack.
  if (depth_ > limits::kTemplateDepth) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "line ", line, ": the chat template nests more than ",
        limits::kTemplateDepth, " levels deep; use another template"));
  }
  return At(line, meter_.Charge(1));
}

absl::Status TemplateRunner::Write(int line, const MarkedText& text) {
  out_.Append(text);
  return At(line, meter_.ChargeText(out_.size() > kOutputBytes ? out_.size()
                                                               : text.size()));
}

ValueOr TemplateRunner::Lookup(const Scope& scope, absl::string_view name) {
  for (const Scope* s = &scope; s; s = s->parent) {
    DS_RETURN_IF_ERROR(meter_.Charge(s->names.size() / 16));
    for (const auto& entry : s->names) {
      if (entry.first == name) return entry.second;
    }
  }
  return Value::Undefined(name);
}

ValueOr TemplateRunner::Located(int line, ValueOr v) {
  if (!v.ok()) return At(line, v.status());
  return v;
}

absl::StatusOr<MarkedText> RunTemplate(
    const std::vector<TemplateStatement>& statements,
    const TemplateValue::Map& variables, absl::Time now) {
  return TemplateRunner(variables, now).Run(statements);
}

}  // namespace deepslice
