// Times of kernels at the shapes of real models.
#ifndef DEEPSLICE_TESTS_GPU_TIMING_H_
#define DEEPSLICE_TESTS_GPU_TIMING_H_

#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/linear.h"
#include "tests/gpu/run_cases.h"

namespace deepslice {

// Hands out memory that holds random bfloats, finite also as floats.
class TimingMemory {
 public:
  static absl::StatusOr<TimingMemory> Make(GpuDevice* device,
                                           CompiledKernels* kernels,
                                           const GpuTarget& target,
                                           int64_t bytes);
  CUdeviceptr Random(int64_t bytes);
  absl::StatusOr<CUdeviceptr> Zeros(int64_t bytes);
  absl::StatusOr<CUdeviceptr> Upload(const void* from, int64_t bytes);
  // What Random gave may be given again.
  void Reuse() { used_ = 0; }

 private:
  GpuDevice* device_ = nullptr;
  CUdeviceptr random_ = 0;
  int64_t bytes_ = 0, used_ = 0;
};

// One row of the table.
struct Timing {
  std::string name;
  std::vector<KernelSpec> specs;  // launched one after the other
  StepInfo info = {};
  double bytes = 0;  // what it must read and write, for TB/s
  double flops = 0;  // else: for TFLOP/s
  // Bytes that have left L2 when a model comes back to them: the launches go
  // over so many copies that all together exceed it.
  int64_t cold_bytes = 0;
  // Parameters behind the StepInfo of each spec for copy `i`.
  std::function<absl::StatusOr<std::vector<std::vector<uint64_t>>>(
      TimingMemory* memory, int i)>
      params;
};

// A linear layer of a model: "1b qkv 2048x3072 t8".
struct ModelLinear {
  std::string name;
  LinearShape shape;
};
std::vector<ModelLinear> ModelLinears(const std::vector<int64_t>& tokens);

std::vector<Timing> LinearTimings(const GpuTarget& target);
std::vector<Timing> AttentionTimings(const GpuTarget& target);
std::vector<Timing> RowsTimings(const GpuTarget& target);

// Prints a line for each; Internal when one fails to launch.
absl::Status PrintTimings(const std::vector<Timing>& timings,
                          const GpuTarget& target, CompiledKernels* kernels,
                          GpuDevice* device);

// The largest difference of any element, over |want| + the root mean square of
// all; infinite for what is no number.
double Distance(const std::vector<double>& got,
                const std::vector<double>& want);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_TIMING_H_
