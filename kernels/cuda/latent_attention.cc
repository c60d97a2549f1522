#include "kernels/cuda/latent_attention.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/row_spec.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

// Of latent_attention.cuh.
constexpr int64_t kThreads = 256, kKeys = 32;
// Fewer keys are not worth a block of their own, nor more parts their joining.
constexpr int64_t kPartKeys = 128, kMostParts = 16;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// Elements between rows in shared memory.
int64_t SharedStride(const LatentAttentionShape& s) {
  const int64_t chunk = 16 / DTypeSize(s.cache);
  return (CeilDiv(s.head_dim, chunk) | 1) * chunk;
}
// LatentBlock::Shared.
int64_t SharedBytes(const LatentAttentionShape& s, int64_t rows) {
  const int64_t stride = SharedStride(s);
  return 4 * rows * stride + kKeys * stride * DTypeSize(s.cache) +
         4 * kKeys * rows + RoundUp(3 * 4 * rows, 16);
}

KernelSpec Append(const LatentAttentionShape& s, const GpuTarget& target) {
  // A vector must not cross the border between the parts.
  const int64_t vec = VectorOf(std::gcd(s.of_a, s.of_b), {s.type, s.cache});
  const int64_t vectors = s.head_dim / vec;
  const int64_t threads = std::min<int64_t>(256, RoundUp(vectors, 32));
  KernelSpec k;
  k.source = "latent_attention.cuh";
  k.entry = EntryText(
      "LatentAppend",
      {CudaTypeName(s.type), CudaTypeName(s.cache), s.of_a, s.of_b,
       s.block_tokens, s.a_stride, s.b_stride, s.key_stride, s.tokens, vec,
       WidthOf(s.type, vec, s.a_stride), WidthOf(s.type, vec, s.b_stride),
       WidthOf(s.type, vec, s.key_stride), WidthOf(s.cache, vec, s.head_dim),
       threads});
  k.label = absl::StrCat("latent_append ", s.head_dim);
  k.grid[0] = RowsExtent(CountDim::kTokens, s.tokens, 1);
  k.grid[1].times = CeilDiv(vectors, threads);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

}  // namespace

std::optional<LatentAttention> SpecializeLatentAttention(
    const LatentAttentionShape& s, const GpuTarget& target) {
  DS_CHECK(s.heads > 0 && s.value_dim > 0 && s.value_dim <= s.head_dim);
  DS_CHECK(s.of_a + s.of_b == s.head_dim && s.block_tokens > 0);
  // As many heads as have a use for a key at a time; 16 rows of sums are what
  // registers hold of up to 1024 columns.
  int64_t rows = s.heads > 8 && s.value_dim <= 1024 ? 16 : s.heads > 4 ? 8 : 4;
  while (rows > 4 && SharedBytes(s, rows) > target.shared_bytes) rows /= 2;
  if (SharedBytes(s, rows) > target.shared_bytes || s.value_dim > 2048) {
    return std::nullopt;
  }
  const int64_t groups = CeilDiv(s.heads, rows);
  const int64_t parts =
      std::clamp<int64_t>(std::min(2 * target.num_sms / (groups * s.tokens),
                                   s.max_context / kPartKeys),
                          1, kMostParts);
  LatentAttention result;
  result.append = Append(s, target);
  KernelSpec& k = result.attend;
  k.source = "latent_attention.cuh";
  k.entry = EntryText(
      "LatentAttention",
      {CudaTypeName(s.type), CudaTypeName(s.cache),
       EntryText("LatentShape",
                 {s.heads, s.head_dim, s.value_dim, s.block_tokens,
                  FloatBitsText(s.scale * std::numbers::log2e), s.q_stride,
                  s.out_stride, rows, SharedStride(s), parts, kPartKeys}),
       std::gcd(s.head_dim, 16 / DTypeSize(s.cache))});
  k.label = absl::StrCat("latent_attention ", s.heads, "x", s.head_dim, " t",
                         s.tokens, " parts ", parts);
  k.grid = {GridExtent{.times = groups}, GridExtent{.dim = CountDim::kTokens},
            GridExtent{.times = parts}};
  k.block[0] = kThreads;
  k.shared_bytes = static_cast<uint32_t>(SharedBytes(s, rows));
  k.programmatic = target.hopper();
  if (parts > 1) {
    const int64_t places = s.tokens * groups;
    result.scratch_bytes = places * parts * rows * (s.value_dim + 2) * 4;
    result.sync_words = places;
  }
  return result;
}

}  // namespace deepslice
