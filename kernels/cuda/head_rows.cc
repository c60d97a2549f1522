#include "kernels/cuda/head_rows.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/row_spec.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

// Of head_linear.cuh.
constexpr int64_t kHeadLinearWarps = 8;
// Tokens of a block.
constexpr int64_t kMostGroup = 8;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace

KernelSpec SpecializeHeadNorm(const HeadNormShape& s, const GpuTarget& target) {
  DS_CHECK(s.heads > 0 && s.head_dim > 0 && s.max_rows > 0);
  const int64_t vec = VectorOf(s.head_dim, {s.x, s.y});
  const int64_t warps = std::min<int64_t>(4, s.heads);
  // What a lane keeps in registers; see SpecializeNorm.
  const bool is_held = RoundUp(s.head_dim, 32 * vec) / 32 <= 64;
  const auto width = [&](DType type, int64_t stride) {
    return std::gcd(WidthOf(type, vec, stride), WidthOf(type, vec, s.head_dim));
  };
  KernelSpec k;
  k.source = "head_norm.cuh";
  k.entry = EntryText(
      "HeadNorm",
      {CudaTypeName(s.x), CudaTypeName(s.y), s.heads, s.head_dim, s.x_stride,
       s.y_stride, BoolText(s.layer_norm), BoolText(s.bias), BoolText(s.each),
       FloatBitsText(s.eps), CountNumber(s.count), s.max_rows, vec,
       width(s.x, s.x_stride), width(s.y, s.y_stride),
       WidthOf(DType::kF32, vec, vec), warps, BoolText(is_held)});
  k.label = absl::StrCat("head_norm ", s.heads, "x", s.head_dim);
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.grid[1].times = CeilDiv(s.heads, warps);
  k.block = {32, static_cast<uint32_t>(warps), 1};
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeConcatHeads(const ConcatHeadsShape& s,
                                 const GpuTarget& target) {
  const int64_t cols = s.heads * (s.of_a + s.of_b);
  DS_CHECK(cols > 0 && s.max_rows > 0);
  // A vector must not cross a border between parts.
  const int64_t vec = VectorOf(std::gcd(s.of_a, s.of_b), {s.x, s.y});
  const int64_t vectors = cols / vec;
  const int64_t threads = std::min<int64_t>(256, RoundUp(vectors, 32));
  KernelSpec k;
  k.source = "concat_heads.cuh";
  k.entry = EntryText(
      "ConcatHeads",
      {CudaTypeName(s.x), CudaTypeName(s.y), s.heads, s.of_a, s.of_b,
       s.a_stride, s.b_stride, s.y_stride, CountNumber(s.count), s.max_rows,
       vec, WidthOf(s.x, vec, s.a_stride), WidthOf(s.x, vec, s.b_stride),
       WidthOf(s.y, vec, s.y_stride), threads});
  k.label = absl::StrCat("concat_heads ", s.heads, "x", s.of_a, "+", s.of_b);
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.grid[1].times = CeilDiv(vectors, threads);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeHeadLinear(const HeadLinearShape& s,
                                const GpuTarget& target) {
  DS_CHECK(s.heads > 0 && s.in > 0 && s.out > 0 && s.max_rows > 0);
  const int64_t group = std::min(kMostGroup, s.max_rows);
  KernelSpec k;
  k.source = "head_linear.cuh";
  const std::string shape = absl::StrCat(
      CudaTypeName(s.x), ", ", CudaTypeName(s.weight), ", ", CudaTypeName(s.y),
      ", ", s.heads, ", ", s.in, ", ", s.out, ", ", s.x_stride, ", ",
      s.y_stride, ", ", CountNumber(s.count), ", ", s.max_rows);
  k.label = absl::StrCat("head_linear ", s.heads, "x", s.in, "x", s.out, " t",
                         s.max_rows);
  if (s.transposed) {
    // Sums of all warps pass shared memory: 4 columns a lane.
    const int64_t vec = std::min<int64_t>(4, VectorOf(s.out, {s.x, s.weight}));
    const int64_t blocks = CeilDiv(s.out, 32 * vec);
    k.entry =
        EntryText("HeadLinearColumns",
                  {shape, blocks, vec, WidthOf(s.weight, vec, s.out), group});
    k.grid[0].times = s.heads * blocks;
  } else {
    const int64_t vec = VectorOf(s.in, {s.x, s.weight});
    const int64_t rows = std::gcd<int64_t>(4, s.out);
    k.entry = EntryText(
        "HeadLinearRows",
        {shape, rows, vec,
         std::gcd(WidthOf(s.x, vec, s.x_stride), WidthOf(s.x, vec, s.in)),
         WidthOf(s.weight, vec, s.in), group});
    k.grid[0].times = CeilDiv(s.heads * s.out, rows * kHeadLinearWarps);
  }
  k.grid[1] = RowsExtent(s.count, s.max_rows, group);
  k.block[0] = 32 * kHeadLinearWarps;
  k.programmatic = target.hopper();
  return k;
}

}  // namespace deepslice
