// Whether a graph keeps the rules that every pass may rely on.
#ifndef DEEPSLICE_IR_VERIFIER_H_
#define DEEPSLICE_IR_VERIFIER_H_

#include "absl/status/status.h"
#include "ir/graph.h"

namespace deepslice {

// Unique names, operands defined before use and owned by this graph, required
// operands present, attributes within their enums and ranges, types as the
// shape rules say, State ops name a state that fits and no state is appended to
// twice, weight pieces fill the weight's shape, every weight and state is used,
// at least one return. Internal status: a broken graph is our fault.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace deepslice

#endif  // DEEPSLICE_IR_VERIFIER_H_
