// What a plan keeps for the tools that start from it again.
#ifndef DEEPSLICE_TOOLS_PLAN_SOURCE_H_
#define DEEPSLICE_TOOLS_PLAN_SOURCE_H_

#include "runtime/plan.h"
#include "schema/base/json.h"

namespace deepslice {

// The plan's `source` (compiler/plan_origin.h), unchecked: {"ir": the graph
// before slicing, "options", "config", and of a policy that is not built in
// "policy", of an automatic one "decisions", ...}. Null when there is none or it
// does not parse.
json::Value PlanSource(const Plan& plan);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_SOURCE_H_
