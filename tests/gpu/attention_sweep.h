// Times other ways to cut decode attention than the one that is chosen: what
// TuneDecode of kernels/cuda/attention.cc is made from.
#ifndef DEEPSLICE_TESTS_GPU_ATTENTION_SWEEP_H_
#define DEEPSLICE_TESTS_GPU_ATTENTION_SWEEP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/cuda/attention_tuning.h"
#include "tests/gpu/run_cases.h"

namespace deepslice {

struct DecodeCut {
  std::string numbers;  // of the tuning, for people and scripts
  DecodeAttention decode;
};

// One shape, at several lengths of its sequences; the first cut is the chosen
// one.
struct DecodeSweep {
  std::string name;
  AttentionShape shape;
  std::vector<int64_t> contexts;
  std::vector<DecodeCut> cuts;
};

// For shapes of known models whose names contain `text`.
std::vector<DecodeSweep> DecodeSweeps(const GpuTarget& target,
                                      absl::string_view text);

// For each shape its cuts, fastest first by the geometric mean of its contexts:
//   decode | shape | place | us of each context.. | numbers | off by | note
// "off by" and the note are those of timing_sweep.h. Inputs and q, k and v are
// warm in L2, as the steps before leave them; the caches are not.
absl::Status PrintDecodeSweeps(const std::vector<DecodeSweep>& sweeps,
                               const GpuTarget& target,
                               CompiledKernels* kernels, GpuDevice* device);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_ATTENTION_SWEEP_H_
