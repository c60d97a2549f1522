// Kernels that treat each row by itself: embedding, norms, elementwise
// epilogues, row gathers, sampling.
#ifndef DEEPSLICE_KERNELS_CUDA_ROWS_H_
#define DEEPSLICE_KERNELS_CUDA_ROWS_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel_spec.h"
#include "schema/ops.h"

namespace deepslice {

// y[t, :] = table[id(t) - begin, :] as `y`, zeros when the row is another
// rank's. id(t) is ids[t], or sampled[~ids[t]] when ids[t] < 0 and has_sampled.
// Operands: ids, table, sampled (null when !has_sampled). Outputs: y.
// Also a table of positions: ids are then the positions, has_sampled false.
struct EmbedShape {
  DType table, y;
  int64_t rows = 0, cols = 0, begin = 0;
  bool has_sampled = false;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeEmbed(const EmbedShape& shape, const GpuTarget& target);

// RmsNorm or LayerNorm of each row, sums in float.
// Operands: x, scale (float[cols]), bias (float[cols] or null), rows (int32 or
// null: y's row r is of x's row rows[r]). Outputs: y.
struct NormShape {
  DType x, y;
  int64_t cols = 0, x_stride = 0, y_stride = 0;
  bool layer_norm = false;
  bool bias = false, gather = false;
  double eps = 0;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeNorm(const NormShape& shape, const GpuTarget& target);

// y = act(x + bias) [* second] [+ second], or of a gated row: y[t, i] =
// act(x[t, 2i] + bias[2i]) * (x[t, 2i+1] + bias[2i+1]); without any of them a
// copy. Operands: x, second (or null), bias (float, or null), rows (int32 or
// null, as in NormShape). Outputs: y; may be second itself, and x itself unless
// gated or gathered.
struct ElementwiseShape {
  DType x, y;  // second has y's type
  int64_t cols = 0;  // of x
  int64_t x_stride = 0, y_stride = 0, second_stride = 0;
  std::optional<Act> act;
  bool gated = false;
  bool bias = false, gather = false;
  enum class Second : uint8_t { kNone, kAdd, kMul } second = Second::kNone;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeElementwise(const ElementwiseShape& shape,
                                 const GpuTarget& target);

// y[r, 0] = sum of x[r, c]^2 over begin <= c < end, in float.
// Operands: x. Outputs: y (float[rows, 1]).
struct SumSquaresShape {
  DType x;
  int64_t begin = 0, end = 0, x_stride = 0;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeSumSquares(const SumSquaresShape& shape,
                                const GpuTarget& target);

// RmsNorm of some columns of rows whose sums of squares are known: y[r, c] =
// x[r, c] / sqrt(sums[r] / columns_of_all + eps) * scale[c].
// Operands: x, sums (float[rows, 1]), scale (float[cols]). Outputs: y.
struct RmsNormOverShape {
  DType x, y;
  int64_t cols = 0, x_stride = 0, y_stride = 0;
  int64_t columns_of_all = 0;
  double eps = 0;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeRmsNormOver(const RmsNormOverShape& shape,
                                 const GpuTarget& target);

// y = factor * x [+ second], or with softcap factor * tanh(x / factor)
// [+ second]. Operands: x, second (or null). Outputs: y; may be x or second.
struct ScaleShape {
  DType x, y;  // second has y's type
  int64_t cols = 0, x_stride = 0, y_stride = 0, second_stride = 0;
  bool softcap = false;
  double factor = 1;
  bool second = false;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeScale(const ScaleShape& shape, const GpuTarget& target);

// Rotates heads in place of an own row: y = rope(x) as in ops.def.
// Operands: x, positions, freqs (float[rotary_dim / 2]), with long_from then
// long_freqs (but not with ntk_factor), slots, horizons. Outputs: y.
struct RopeShape {
  DType x, y;
  int64_t heads = 0, head_dim = 0, rotary_dim = 0;
  int64_t x_stride = 0, y_stride = 0;
  RopeStyle style = RopeStyle::kHalf;
  double scale = 1;
  std::optional<int64_t> long_from;
  double ntk_factor = 0;  // 0: none; else with long_from
  int64_t max_rows = 1;
};
KernelSpec SpecializeRope(const RopeShape& shape, const GpuTarget& target);

// What an all-gather leaves, [world][count rows][part] with every part padded
// to `part` columns, becomes [rows, total]: rank r's columns are
// [floor(r * total / world), floor((r + 1) * total / world)).
// The blocks of the input are `max_rows * part` elements apart.
// Operands: gathered. Outputs: y.
struct UngatherShape {
  DType type;
  int world = 1;
  int64_t part = 0, total = 0;
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};
KernelSpec SpecializeUngather(const UngatherShape& shape,
                              const GpuTarget& target);

// Draws an id for each of StepInfo::sampled_rows rows of float logits, as
// SampleToken of runtime/engine.h does; kNoSampledId where a row holds NaN or
// its largest logit is infinite. Operands: logits, samplers, scratch (of
// SampleScratchBytes), sync (kSampleSyncWords * max_rows words). Outputs:
// sampled.
struct SampleShape {
  int64_t vocab = 0, logits_stride = 0;
  int64_t max_rows = 1;
};
inline constexpr int64_t kSampleSyncWords = 2;
int64_t SampleScratchBytes(const SampleShape& shape);
KernelSpec SpecializeSample(const SampleShape& shape, const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_ROWS_H_
