#include "kernels/cuda/encoder_attention.h"

#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/row_spec.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

// Of encoder_attention.cuh.
constexpr int64_t kWarps = 4, kKeys = 32;
// What a block may have without asking for more.
constexpr int64_t kSharedBytes = 48 << 10;

int64_t SharedBytes(int64_t rows, int64_t head_dim) {
  return 4 * (rows * head_dim + kKeys * (head_dim + 1) + rows * kKeys + 2);
}

}  // namespace

std::optional<KernelSpec> SpecializeEncoderAttention(
    const EncoderAttentionShape& s, const GpuTarget& target) {
  DS_CHECK(s.heads > 0 && s.group > 0 && s.head_dim > 0 && s.max_rows > 0);
  // Queries of a warp: fewer where heads are large.
  int64_t per = 4;
  while (per > 1 && SharedBytes(kWarps * per, s.head_dim) > kSharedBytes) {
    per /= 2;
  }
  if (SharedBytes(kWarps * per, s.head_dim) > kSharedBytes) return std::nullopt;
  const int64_t vec = VectorOf(s.head_dim, {s.type});
  int64_t width = WidthOf(s.type, vec, s.head_dim);
  for (const int64_t stride : {s.q_stride, s.k_stride, s.v_stride}) {
    width = std::gcd(width, WidthOf(s.type, vec, stride));
  }
  const double log2_e = std::log2(std::exp(1.0));
  KernelSpec k;
  k.source = "encoder_attention.cuh";
  std::string type = CudaTypeName(s.type);
  if (s.relative.has_value()) {
    const auto biases =
        RelativeBiasArg(*s.relative, /*both_directions=*/!s.causal);
    DS_CHECK(biases.has_value());
    absl::StrAppend(&type, ", ", *biases);
  }
  k.entry = EntryText(
      s.relative.has_value() ? "EncoderAttentionRelative" : "EncoderAttention",
      {type, s.heads, s.group, s.head_offset, s.head_dim, s.q_stride,
       s.k_stride, s.v_stride, s.y_stride, BoolText(s.causal),
       FloatBitsText(s.scale * log2_e), CountNumber(s.count), s.max_rows, per,
       vec, width});
  k.label = absl::StrCat("encoder_attention ", s.heads, "x", s.head_dim);
  k.grid[0].times = s.heads;
  k.grid[1] = RowsExtent(s.count, s.max_rows, kWarps * per);
  k.block[0] = 32 * kWarps;
  k.programmatic = target.hopper();
  return k;
}

}  // namespace deepslice
