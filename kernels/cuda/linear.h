// Linear layers of few tokens, with everything around them folded in.
#ifndef DEEPSLICE_KERNELS_CUDA_LINEAR_H_
#define DEEPSLICE_KERNELS_CUDA_LINEAR_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel_spec.h"
#include "schema/ops.h"

namespace deepslice {

enum class FusedNorm : uint8_t { kNone, kRms, kLayer };

// y[t, :] = act(norm(x[row(t), :]) . w^T + bias) + residual[t, :], sums in
// float. row(t) is t, or rows[t] when `gather`. `gated`: w's rows alternate gate
// and up, and y[t, i] = act(z[2i]) * z[2i + 1] has out / 2 columns.
struct LinearShape {
  DType x = DType::kBF16;       // and residual
  DType weight = DType::kBF16;  // kF32, kF16, kBF16; 16-bit ones equal x
  DType y = DType::kBF16;       // x's type, or kF32
  int64_t in = 0, out = 0;      // weight [out, in], row-major
  int64_t x_stride = 0, y_stride = 0, residual_stride = 0;  // elements of a row
  int64_t tokens = 1;      // most rows of y in a launch
  bool by_rows = false;    // the count is StepInfo::rows, not tokens
  bool gather = false;     // x's rows by the operand `rows`; implies by_rows
  FusedNorm norm = FusedNorm::kNone;
  double eps = 0;
  bool norm_bias = false;  // kLayer only
  bool bias = false, residual = false;
  std::optional<Act> act;
  bool gated = false;
};

// Operands, in this order, null where absent: x, w, norm scale (float[in]), norm
// bias (float[in]), bias (float[out]), residual, rows (int32). Outputs: y.
// nullopt: more tokens than these kernels serve well; norms and epilogues are
// then kernels of their own (rows.h) around a GEMM step. Always an instance for
// up to kMaxLinearTokens tokens.
inline constexpr int64_t kMaxLinearTokens = 32;
std::optional<KernelSpec> SpecializeLinear(const LinearShape& shape,
                                           const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_LINEAR_H_
