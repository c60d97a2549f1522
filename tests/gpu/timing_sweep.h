// Times other ways to cut linear layers than the one that is chosen: what the
// model of kernels/cuda/linear_tiling.cc is made from.
#ifndef DEEPSLICE_TESTS_GPU_TIMING_SWEEP_H_
#define DEEPSLICE_TESTS_GPU_TIMING_SWEEP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/cuda/linear.h"
#include "tests/gpu/run_cases.h"

namespace deepslice {

struct LinearCut {
  std::string numbers;  // of the tiling, for people and scripts
  KernelSpec spec;
};

// One layer; the first cut is the chosen one, the second is the same where no
// launch begins before the one before it has ended ("alone").
struct LinearSweep {
  std::string name;
  LinearShape shape;
  std::vector<LinearCut> cuts;
};

// For layers of known models whose names contain `text`.
std::vector<LinearSweep> LinearSweeps(const GpuTarget& target,
                                      absl::string_view text);

// For each layer its cuts, fastest first:
//   sweep | layer | place | us | TB/s | numbers | off by | note
// "off by": the largest difference from what the chosen cut computes, over
// |that| + its root mean square. The note is "chosen" or "WRONG". x
// is warm in L2, as the step before leaves it; weights are not.
absl::Status PrintSweeps(const std::vector<LinearSweep>& sweeps,
                         const GpuTarget& target, CompiledKernels* kernels,
                         GpuDevice* device);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_TIMING_SWEEP_H_
