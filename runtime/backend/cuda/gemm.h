// Matrix products of GEMM steps through cuBLASLt.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_GEMM_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_GEMM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/backend/cuda/gpu_api.h"
#include "schema/base/dtype.h"

namespace deepslice {

// out[m, n] = sum_k a[m, k] * w[n, k] (+ residual[m, n]); all row-major, sums
// in float, w dense. Everything but m.
struct GemmShape {
  int64_t n = 0, k = 0;
  DType in = DType::kF32, out = DType::kF32;  // of a and w; of out and residual
  int64_t a_stride = 0, out_stride = 0;       // elements of a row
  int64_t residual_stride = 0;                // 0: no residual

  // "4096x6144 bf16 bf16 a 4096 out 6144 residual 0": its key in files.
  std::string Text() const;
  bool operator==(const GemmShape&) const = default;
};

// Heights are served by classes, each with an algorithm of its own: 16, 64,
// 128, ... 4096, and everything above.
inline constexpr int64_t kGemmClasses[] = {16,   64,   128,  256, 512,
                                           1024, 2048, 4096, 8192};
inline constexpr int kNumGemmClasses = std::size(kGemmClasses);
int GemmClassOf(int64_t m);

// The shapes of a plan and the algorithms chosen for them. One thread at a
// time.
class Gemms {
 public:
  // `workspace` is device memory that all products share, so they must be of
  // one stream. `api` must outlive it.
  static absl::StatusOr<std::unique_ptr<Gemms>> Create(const CublasLtApi& api,
                                                       CUdeviceptr workspace,
                                                       int64_t workspace_bytes);
  ~Gemms();

  // The index of `shape`, made at its first call. Unimplemented for types that
  // cuBLASLt lacks.
  absl::StatusOr<int> Add(const GemmShape& shape);
  int size() const { return static_cast<int>(problems_.size()); }
  const GemmShape& shape(int i) const { return problems_[i].shape; }

  // Starts the product on `stream`. With the algorithm of m's class, or where
  // it does not take m, or none was chosen, the heuristic's first.
  absl::Status Run(int i, int64_t m, CUdeviceptr a, CUdeviceptr w,
                   CUdeviceptr residual, CUdeviceptr out, CUstream stream);

  // Up to `wanted` algorithms for a height, most promising first.
  absl::StatusOr<std::vector<CublasLtAlgo>> Candidates(int i, int64_t m,
                                                       int wanted);
  // Run with a given algorithm.
  absl::Status RunWith(int i, int64_t m, const CublasLtAlgo& algo,
                       CUdeviceptr a, CUdeviceptr w, CUdeviceptr residual,
                       CUdeviceptr out, CUstream stream);
  // Whether `algo` can serve the class on this card.
  bool Accepts(int i, int gemm_class, const CublasLtAlgo& algo);
  void Choose(int i, int gemm_class, const CublasLtAlgo& algo);
  // nullptr: none was chosen, so that the heuristic's first serves.
  const CublasLtAlgo* chosen(int i, int gemm_class) const;
  size_t library_version() const { return api_.GetVersion(); }

 private:
  struct Problem {
    GemmShape shape;
    CublasLtDesc desc = nullptr;
    CublasLtLayout w = nullptr, a = nullptr, residual = nullptr, out = nullptr;
    enum class Source : uint8_t { kNone, kHeuristic, kChosen };
    Source sources[kNumGemmClasses] = {};
    CublasLtAlgo algos[kNumGemmClasses];
    // Heights that their class's algorithm did not take.
    std::map<int64_t, CublasLtAlgo> exact;
  };

  Gemms(const CublasLtApi& api, CUdeviceptr workspace, int64_t workspace_bytes)
      : api_(api), workspace_(workspace), workspace_bytes_(workspace_bytes) {}
  absl::Status Check(CublasStatus status, const Problem& p, int64_t m) const;
  absl::Status SetHeight(const Problem& p, int64_t m) const;
  CublasStatus Start(const Problem& p, const CublasLtAlgo& algo, CUdeviceptr a,
                     CUdeviceptr w, CUdeviceptr residual, CUdeviceptr out,
                     CUstream stream) const;
  absl::StatusOr<CublasLtAlgo> FirstAlgo(int i, int64_t m);

  const CublasLtApi& api_;
  const CUdeviceptr workspace_;
  const int64_t workspace_bytes_;
  CublasLtHandle handle_ = nullptr;
  CublasLtPreference preference_ = nullptr;
  std::vector<Problem> problems_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_GEMM_H_
