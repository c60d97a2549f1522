// --random-weights: the tensors that a config.json asks for, made up.
#ifndef DEEPSLICE_COMPILER_RANDOM_WEIGHTS_H_
#define DEEPSLICE_COMPILER_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// The tensors that transformers saves of a model with that config.json, of a
// built-in family, in its type: names, shapes and what OpenRandomWeights makes
// of them.
absl::StatusOr<std::vector<TensorInfo>> ListTensors(const json::Value& config);

// Every tensor of the policy that fits the config, as transformers would save
// the model: biases by the config's flags, a head unless it is tied, stored as
// torch_dtype (or dtype) says, else float32. Norm scales lie in [0.75, 1.25),
// biases in [-1/16, 1/16); matrices have a standard deviation within sqrt(2) of
// 1 / sqrt(their inputs). Errors: OpenSyntheticCheckpoint's and those that
// DescribeModel has for a config. The policy as in DescribeOptions, but never an
// automatic one, which takes tensors to make.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenRandomWeights(
    const std::string& path, uint64_t seed, const std::string& policy_text = "",
    const std::string& policy_name = "");

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_RANDOM_WEIGHTS_H_
