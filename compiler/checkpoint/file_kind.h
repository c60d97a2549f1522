// Tells from a file's first bytes what it is, so that a wrong file is refused
// by its true name.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_FILE_KIND_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_FILE_KIND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// Ok, or DataLoss when `bytes` is a Git LFS pointer in place of the file.
absl::Status RefuseLfsPointer(absl::string_view bytes, const std::string& path);

// Ok when the first bytes belong to no known other kind. Otherwise
// InvalidArgument "PATH: start of file: this is a PyTorch zip, not a
// safetensors file; ..." (`wanted` is "safetensors" or "GGUF"), or DataLoss as
// above.
absl::Status RefuseOtherKind(absl::string_view bytes, const std::string& path,
                             absl::string_view wanted);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_FILE_KIND_H_
