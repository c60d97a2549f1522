// `dsplan inspect --html`: a plan as one page that needs nothing else.
#ifndef DEEPSLICE_TOOLS_PLAN_HTML_H_
#define DEEPSLICE_TOOLS_PLAN_HTML_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/plan.h"
#include "schema/base/json.h"

namespace deepslice {

// Steps, memory over time, weights and collectives of all ranks, and where the
// plan comes from. The page holds its styles and pictures, no script, and a
// policy that lets it load nothing. `title` and every name are escaped.
std::string PlanHtml(absl::string_view title, const std::vector<Plan>& ranks,
                     const json::Value& manifest);

// `text` as text of a page or a quoted attribute.
std::string EscapeHtml(absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_HTML_H_
