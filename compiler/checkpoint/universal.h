// DeepSpeed's universal checkpoints: zero/NAME/fp32.pt for each parameter,
// whole.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_UNIVERSAL_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_UNIVERSAL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// Whether `step` is the folder of such a checkpoint.
bool IsUniversal(const std::string& step);

// The folder of such a checkpoint that `folder` is, or that its file
// latest_universal names where there is no file latest; "" when it is none.
absl::StatusOr<std::string> FindUniversal(const std::string& folder);

// The parameters in `step`, which FindUniversal gave. Names of Megatron's are
// a Megatron GPT by the arguments in mp_rank_00_model_states.pt, those of a
// pipeline are its layers, others are Hugging Face's and need a config.json:
// in one of `folders`, which also are where a tokenizer may be.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenUniversal(
    const std::string& step, const std::vector<std::string>& folders,
    const OpenOptions& options, std::vector<std::string> notes);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_UNIVERSAL_H_
