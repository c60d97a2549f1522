// Finds the fastest cuBLASLt algorithms on the card that is there, and keeps
// them between runs.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_GEMM_TUNER_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_GEMM_TUNER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gemm.h"
#include "runtime/comm/comm.h"

namespace deepslice {

// Memory to time one problem in. Weights come one after the other, so that none
// is found in the card's cache.
struct GemmSample {
  int problem = 0;
  int64_t most_rows = 0;  // that `a`, `out` and `residual` hold
  CUdeviceptr a = 0, out = 0, residual = 0;
  std::vector<CUdeviceptr> weights;
};

struct TuneOptions {
  double seconds = 0.4;  // after these, what is left keeps the heuristic's
  int candidates = 8;    // for each shape and class
  int rounds = 3;        // timed runs of each, the least counts
  bool again = false;    // those that have a choice, too
  // Told of each choice: shape, rows, microseconds of the heuristic's first and
  // of the winner.
  std::function<void(const GemmShape& shape, int64_t rows, double first_us,
                     double best_us)>
      report;
};

// Times candidates, from the tallest class to the lowest.
absl::Status TuneGemms(const GpuContext& gpu,
                       const std::vector<GemmSample>& samples,
                       const TuneOptions& options, CUstream stream,
                       Gemms* gemms);

// What a file of choices holds, one line each: "16 N x K ...: 16 hex words".
std::string FormatGemmChoices(const Gemms& gemms);
// Adopts the lines that fit a problem and that this library and card accept;
// whatever else the text holds is passed over. How many were adopted.
int AdoptGemmChoices(absl::string_view text, Gemms* gemms);

// CACHE/deepslice/PLANSET/GPU-CUBLAS; "" when there is no place for a cache.
// `cache_folder` is XDG_CACHE_HOME, or HOME/.cache.
std::string GemmCachePath(absl::string_view cache_folder,
                          absl::string_view plan_set_id,
                          absl::string_view gpu_name, size_t cublas_version);
// Replaced in one go, so that ranks and runs may race.
absl::Status WriteGemmCache(const std::string& path, absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_GEMM_TUNER_H_
