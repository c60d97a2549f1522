// The embedded text that a kernel is compiled from, with all that it includes.
#ifndef DEEPSLICE_COMPILER_JIT_KERNEL_TEXT_H_
#define DEEPSLICE_COMPILER_JIT_KERNEL_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

// `source` and every file it includes, directly or not, in the order in which
// a compiler first meets their ends: each after what it includes. Internal
// where a name is not embedded.
absl::StatusOr<std::vector<const EmbeddedKernelFile*>> KernelFilesOf(
    absl::string_view source);

// One text for people to read: the files in that order with their includes
// commented out, and the entry.
std::string KernelTextOf(const std::vector<const EmbeddedKernelFile*>& files,
                         absl::string_view entry);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_JIT_KERNEL_TEXT_H_
