// From tokens to statements.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_PARSER_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_PARSER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/template_ast.h"

namespace deepslice {

// InvalidArgument with "line L: ..." for bad syntax; Unimplemented by name for
// statements, filters and tests outside the subset.
absl::StatusOr<std::vector<TemplateStatement>> ParseTemplate(
    absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_PARSER_H_
