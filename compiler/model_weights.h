// Which tensor makes which weight: a policy's patterns against the names that
// a checkpoint has. Internal to DescribeModel.
#ifndef DEEPSLICE_COMPILER_MODEL_WEIGHTS_H_
#define DEEPSLICE_COMPILER_MODEL_WEIGHTS_H_

#include "absl/status/status.h"
#include "compiler/model.h"
#include "compiler/model_attributes.h"
#include "compiler/policy.h"

namespace deepslice {

// Fills weights, coverage and tied_head of a model whose attributes are there,
// and vocab_size when it is 0. Every tensor is used once, tied, or unused by a
// rule; what is missing, left over, of another shape or contradicts the config
// is an error with the first few names and the count.
absl::Status ResolveWeights(const Policy& policy, const ModelFlags& flags,
                            const Checkpoint& checkpoint,
                            const DescribeOptions& options,
                            ModelDescription* model);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MODEL_WEIGHTS_H_
