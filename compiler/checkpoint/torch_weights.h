// The state dict of a model in a file of torch.save, wherever it stands in it.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_TORCH_WEIGHTS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_TORCH_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

struct TorchWeights {
  std::vector<TensorInfo> tensors;  // in file order, names unique; `file` is 0
  std::vector<std::string> notes;   // what was unwrapped, stripped or left out
};

// `file` is the whole file, `path` its name in errors. A dict without tensors
// of its own is unwrapped by the first of these keys that it has: state_dict,
// model_state_dict, model, module. A prefix of all names that a wrapper of the
// model put there (module., _orig_mod., _forward_module.) is taken off.
absl::StatusOr<TorchWeights> ReadTorchWeights(absl::string_view file,
                                              const std::string& path);

// Takes such prefixes off where all names have them, with a note that begins
// with `path`.
void StripWrapperPrefixes(const std::string& path,
                          std::vector<TensorInfo>* tensors,
                          std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_TORCH_WEIGHTS_H_
