// `dsplan diff`: what sets two plans apart.
#ifndef DEEPSLICE_TOOLS_PLAN_DIFF_H_
#define DEEPSLICE_TOOLS_PLAN_DIFF_H_

#include <string>
#include <vector>

#include "runtime/plan.h"
#include "schema/base/json.h"

namespace deepslice {

// A plan folder as it is compared: its ranks, which need not have been checked
// against the weights' hashes, and manifest.json.
struct ComparedPlan {
  std::string folder;
  std::vector<Plan> ranks;
  json::Value manifest;
};

// {schema_version, a, b, same, differences: [{area, what, a, b, ...}]}, where
// area is one of options, sources, mesh, passes, steps, kernels, weights,
// memory, text, collectives, in that order. Weights have relative_l2, max_error
// and different_elements beside both sides' type where shapes agree. Steps and
// weights of ranks are compared when both plans have as many ranks.
json::Value DiffPlans(const ComparedPlan& a, const ComparedPlan& b);

// The same as text: of each area at most `lines` differences (0: all), and how
// many there are.
std::string DiffText(const json::Value& diff, int lines);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_DIFF_H_
