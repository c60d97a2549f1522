// Kernels from text to machine code: NVRTC, found at run time, and a cache on
// disk. Needs no GPU, no driver and no header of the toolkit.
#ifndef DEEPSLICE_COMPILER_JIT_JIT_H_
#define DEEPSLICE_COMPILER_JIT_JIT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

struct JitOptions {
  std::string cache_dir;  // made when absent; "": no cache
  int threads = 1;        // programs compiled at the same time
  // Fills CompiledKernel::log. The images differ in a few bytes from those
  // made without.
  bool verbose = false;
  std::function<bool()> stopped;  // asked between kernels; may be empty
  // Told after each kernel, by one thread at a time; may be empty.
  std::function<void(int done, int all)> progress;
};

struct CompiledKernel {
  std::string image;  // a cubin, or PTX text for a target that is PTX
  std::string entry;  // mangled
  // Registers, spills and shared memory as the assembler counts them; empty
  // unless verbose, and when the image comes from the cache.
  std::string log;
};

// $XDG_CACHE_HOME/deepslice/kernels, else ~/.cache/deepslice/kernels; "" when
// neither is known.
std::string DefaultKernelCache();

class KernelCompiler {
 public:
  // Finds libnvrtc (nvrtc.h). FailedPrecondition with what to install when it
  // is nowhere.
  static absl::StatusOr<std::unique_ptr<KernelCompiler>> Open(
      const JitOptions& options);
  virtual ~KernelCompiler() = default;

  // One image for each spec, in order; equal specs (source and entry) are
  // compiled once. The same bytes for the same specs, target and NVRTC,
  // whatever the threads and the cache. Internal with the label and NVRTC's
  // first error where a kernel does not compile; FailedPrecondition where this
  // NVRTC lacks the target; Cancelled when stopped.
  virtual absl::StatusOr<std::vector<CompiledKernel>> CompileAll(
      absl::Span<const KernelSpec> specs, const GpuTarget& target) = 0;

  // "13.0": for provenance; images depend on it.
  virtual const std::string& version() const = 0;
  // Kernels that CompileAll found in the cache and that it compiled, so far.
  virtual int cached() const = 0;
  virtual int compiled() const = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_JIT_JIT_H_
