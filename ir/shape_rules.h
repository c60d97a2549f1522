// One rule per op: operand types and attributes to the result's type.
#ifndef DEEPSLICE_IR_SHAPE_RULES_H_
#define DEEPSLICE_IR_SHAPE_RULES_H_

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace deepslice {

// The type of the node's result. InvalidArgument with op, operand, what was
// found and what is allowed.
absl::StatusOr<TensorType> InferType(const Node& node);

}  // namespace deepslice

#endif  // DEEPSLICE_IR_SHAPE_RULES_H_
