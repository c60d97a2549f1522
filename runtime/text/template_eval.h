// Runs a parsed template.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_EVAL_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_EVAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/text/template_ast.h"
#include "runtime/text/template_value.h"

namespace deepslice {

// What `statements` write with `variables` as their globals, at the time `now`.
// Errors as for ChatTemplate::Render. Nothing outside of the variables can be
// reached.
absl::StatusOr<MarkedText> RunTemplate(
    const std::vector<TemplateStatement>& statements,
    const TemplateValue::Map& variables, absl::Time now);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_EVAL_H_
