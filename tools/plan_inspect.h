// `dsplan inspect`: a plan as text for people, or as JSON.
#ifndef DEEPSLICE_TOOLS_PLAN_INSPECT_H_
#define DEEPSLICE_TOOLS_PLAN_INSPECT_H_

#include <string>

#include "runtime/plan.h"
#include "schema/base/json.h"

namespace deepslice {

// Mesh, sizes, steps, memory map, weights, collectives, text and provenance of
// one rank. `manifest` is the folder's.
json::Value InspectRank(const Plan& plan, const json::Value& manifest);

// The same as text; the JSON of InspectRank laid out in tables.
std::string InspectText(const json::Value& rank);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_INSPECT_H_
