// Compiled kernels on disk, found again by what they were made from. Never
// needed: whatever fails here costs time only.
#ifndef DEEPSLICE_COMPILER_JIT_KERNEL_CACHE_H_
#define DEEPSLICE_COMPILER_JIT_KERNEL_CACHE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "compiler/jit/jit.h"

namespace deepslice {

// An entry is the folder <folder>/<key> with kernel.cu (to read), the image as
// kernel.cubin or kernel.ptx, and kernel.txt (mangled name and digest). Any
// number of threads and processes may use one folder.
class KernelCache {
 public:
  // "": finds nothing, keeps nothing.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  // nullopt when there is none, or it is not whole.
  std::optional<CompiledKernel> Find(const std::string& key, bool ptx) const;
  // Writes the entry aside and renames it into place, over one that Find
  // would refuse.
  void Keep(const std::string& key, bool ptx, const CompiledKernel& kernel,
            absl::string_view text) const;

 private:
  const std::string folder_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_JIT_KERNEL_CACHE_H_
