// Methods of strings of the template language.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_STRING_METHODS_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_STRING_METHODS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_value.h"

namespace deepslice {

// subject.name(args) as Python's str has it; errors as CallTemplateMethod's.
absl::StatusOr<TemplateValue> CallTemplateStringMethod(
    const TemplateValue& subject, absl::string_view name,
    const TemplateArgs& args, TemplateMeter& meter);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_STRING_METHODS_H_
