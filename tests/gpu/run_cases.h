// Compiles the kernels of cases, runs them and compares.
#ifndef DEEPSLICE_TESTS_GPU_RUN_CASES_H_
#define DEEPSLICE_TESTS_GPU_RUN_CASES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/jit/jit.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/gpu_device.h"

namespace deepslice {

// Compiled kernels by source and entry.
class CompiledKernels {
 public:
  // Compiles all; where that fails, one by one, and prints each kernel that
  // does not compile. Internal only when NVRTC is missing.
  static absl::StatusOr<CompiledKernels> Make(
      const std::vector<KernelSpec>& specs, const GpuTarget& target,
      const JitOptions& options);

  // nullptr: did not compile.
  const CompiledKernel* Find(const KernelSpec& spec) const;
  // Loads at the first call.
  absl::StatusOr<CUfunction> Function(const KernelSpec& spec,
                                      GpuDevice* device);
  int failed() const { return failed_; }
  size_t size() const { return kernels_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;
  std::map<Key, CompiledKernel> kernels_;
  std::map<Key, CUfunction> functions_;
  int failed_ = 0;
};

struct CheckResult {
  int passed = 0, failed = 0;
};

// Runs each case twice on poisoned outputs; prints a line for each that fails.
// Data is made on `threads` threads.
CheckResult RunCases(const std::vector<GpuCaseEntry>& entries,
                     CompiledKernels* kernels, GpuDevice* device, int threads);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_RUN_CASES_H_
