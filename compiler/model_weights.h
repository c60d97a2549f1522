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

// Rows or columns of a slot in this model; 1 for kNone.
int64_t SlotSize(const ModelDescription& model, SlotDim dim);
// Whether the model's head reads the pattern's tensors.
bool IsOfHead(const WeightPattern& pattern, const ModelFlags& flags);
// Whether the config has tensors of that pattern.
bool IsWanted(const WeightPattern& pattern, const ModelFlags& flags);
// The role of a slot in this model.
Role SlotRole(const ModelDescription& model, const WeightSlot& slot);
// The shape of a pattern's tensor as it is published, and its rows before the
// first that the weights take.
std::vector<int64_t> PublishedShape(const WeightPattern& pattern,
                                    const ModelDescription& model,
                                    const ModelFlags& flags);
int64_t FirstRow(const WeightPattern& pattern, const ModelFlags& flags);

// Whether two tensors hold the same numbers. Reads both, a few rows at a time.
absl::StatusOr<bool> TensorsEqual(const Checkpoint& checkpoint,
                                  const TensorInfo& a, const TensorInfo& b);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MODEL_WEIGHTS_H_
