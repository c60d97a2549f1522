// `dsplan explain TENSOR`: one tensor's way from the checkpoint to the steps.
#ifndef DEEPSLICE_TOOLS_PLAN_EXPLAIN_H_
#define DEEPSLICE_TOOLS_PLAN_EXPLAIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan.h"
#include "schema/base/json.h"

namespace deepslice {

// `tensor` is a published name ("model.layers.0.mlp.down_proj.weight") or a
// weight's ("@layers.0.mlp_out" or without @). `report` is the folder's
// report.json. NotFound with the nearest name when no rank has it.
absl::StatusOr<std::string> ExplainTensor(const std::vector<Plan>& ranks,
                                          const json::Value& report,
                                          absl::string_view tensor);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_EXPLAIN_H_
