// What a checkpoint's tensors say of a model beside being its weights.
#ifndef DEEPSLICE_COMPILER_MODEL_TENSORS_H_
#define DEEPSLICE_COMPILER_MODEL_TENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/model.h"
#include "compiler/policy.h"

namespace deepslice {

// What became of each tensor, by its name.
using TensorUses = std::map<std::string, TensorUse>;

// "[6, 8]".
std::string ShapeText(const std::vector<int64_t>& shape);
// The path of the file that holds `tensor`.
std::string FileOf(const Checkpoint& checkpoint, const TensorInfo& tensor);

// Takes vocab_size from the embedding, with a note, when the config has none.
// `policy` is of one prefix.
void ReadVocabSize(const Policy& policy, const Checkpoint& checkpoint,
                   ModelDescription* model);

// GGUF keeps scaled rotary frequencies as a tensor of divisors: adds them to
// the arguments of model->rope, where the config names that tensor.
absl::Status ReadRopeFactors(const Checkpoint& checkpoint, TensorUses* uses,
                             ModelDescription* model);

// CLIP keeps the factor of its logits as a tensor of one logarithm: sets
// logit_scale, where the policy names that tensor. One that is not there is
// added to `missing`.
absl::Status ReadLogitScale(const Policy& policy, const Checkpoint& checkpoint,
                            TensorUses* uses, std::vector<std::string>* missing,
                            ModelDescription* model);

// Whether two tensors hold the same numbers. Reads both, a few rows at a time.
absl::StatusOr<bool> TensorsEqual(const Checkpoint& checkpoint,
                                  const TensorInfo& a, const TensorInfo& b);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MODEL_TENSORS_H_
