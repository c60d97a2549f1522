#include "kernels/cuda/cross_attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/row_spec.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

constexpr uint32_t kThreads = 256;     // of cross_attention.cuh
constexpr int64_t kMostHeadDim = 512;  // whose sums a lane keeps in registers

}  // namespace

KernelSpec SpecializeCrossAppend(const CrossAttentionShape& s,
                                 const GpuTarget& target) {
  DS_CHECK(s.kv_heads > 0 && s.head_dim > 0 && s.block_tokens > 0);
  KernelSpec k;
  k.source = "cross_attention.cuh";
  k.entry =
      EntryText("CrossAppend", {CudaTypeName(s.type), CudaTypeName(s.cache),
                                s.kv_heads, s.head_dim, s.k_stride, s.v_stride,
                                s.block_tokens, s.max_sources});
  k.label = absl::StrCat("cross_append ", s.kv_heads, "x", s.head_dim);
  k.grid[0] = RowsExtent(CountDim::kSourceTokens, s.max_sources, 1);
  k.block[0] = kThreads;
  k.programmatic = target.hopper();
  return k;
}

std::optional<KernelSpec> SpecializeCrossAttention(const CrossAttentionShape& s,
                                                   const GpuTarget& target) {
  DS_CHECK(s.heads > 0 && s.group > 0 && s.head_dim > 0 && s.block_tokens > 0);
  if (s.head_dim > kMostHeadDim) return std::nullopt;
  const double log2_e = std::log2(std::exp(1.0));
  KernelSpec k;
  k.source = "cross_attention.cuh";
  k.entry =
      EntryText("CrossAttention",
                {CudaTypeName(s.type), CudaTypeName(s.cache), s.kv_heads,
                 s.group, s.head_offset, s.head_dim, s.q_stride, s.y_stride,
                 s.block_tokens, FloatBitsText(s.scale * log2_e), s.max_rows});
  k.label = absl::StrCat("cross_attention ", s.heads, "x", s.head_dim);
  k.grid[0].times = s.heads;
  k.grid[1] = RowsExtent(CountDim::kTokens, s.max_rows, 1);
  k.block[0] = kThreads;
  k.programmatic = target.hopper();
  return k;
}

}  // namespace deepslice
