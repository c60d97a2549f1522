#include "kernels/cuda/rows.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/row_spec.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

int ActNumber(const std::optional<Act>& act) {
  return act.has_value() ? static_cast<int>(*act) : -1;  // kNoAct
}

}  // namespace

KernelSpec SpecializeEmbed(const EmbedShape& s, const GpuTarget& target) {
  DS_CHECK(s.cols > 0 && s.max_rows > 0);
  const int64_t vec = VectorOf(s.cols, {s.table, s.y});
  const int64_t threads =
      std::min<int64_t>(256, RoundUp(CeilDiv(s.cols, vec), 32));
  KernelSpec k;
  k.source = "embed.cuh";
  k.entry = EntryText(
      "Embed",
      {CudaTypeName(s.table), CudaTypeName(s.y), s.rows, s.cols, s.begin,
       BoolText(s.has_sampled), CountNumber(s.count), s.max_rows, vec,
       WidthOf(s.table, vec, s.cols), WidthOf(s.y, vec, s.cols), threads});
  k.label = absl::StrCat("embed ", s.rows, "x", s.cols);
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeNorm(const NormShape& s, const GpuTarget& target) {
  DS_CHECK(s.cols > 0 && s.max_rows > 0);
  const int64_t vec = VectorOf(s.cols, {s.x, s.y});
  const int64_t vectors = CeilDiv(s.cols, vec);
  // Short rows: a warp each. Others: a block, of few threads where there are
  // rows enough for all multiprocessors, else of as many as have work.
  int64_t threads = 32, rows_per_block = s.max_rows >= 64 ? 4 : 1;
  if (vectors > 4 * 32) {
    const int64_t limit = s.max_rows > 2 * target.num_sms ? 256 : 1024;
    threads = RoundUp(CeilDiv(vectors, CeilDiv(vectors, limit)), 32);
    rows_per_block = 1;
  }
  const int64_t held = CeilDiv(vectors, threads) * vec;
  const bool is_held = held <= (threads > 512 ? 32 : 64);  // in registers
  KernelSpec k;
  k.source = "norm.cuh";
  k.entry = EntryText(
      "Norm", {CudaTypeName(s.x), CudaTypeName(s.y), s.cols, s.x_stride,
               s.y_stride, BoolText(s.layer_norm), BoolText(s.bias),
               BoolText(s.gather), FloatBitsText(s.eps), CountNumber(s.count),
               s.max_rows, vec, WidthOf(s.x, vec, s.x_stride),
               WidthOf(s.y, vec, s.y_stride), WidthOf(DType::kF32, vec, vec),
               threads, rows_per_block, BoolText(is_held)});
  k.label = absl::StrCat(s.layer_norm ? "layer_norm " : "rms_norm ", s.cols);
  k.grid[0] = RowsExtent(s.count, s.max_rows, rows_per_block);
  k.block = {static_cast<uint32_t>(threads),
             static_cast<uint32_t>(rows_per_block), 1};
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeSumSquares(const SumSquaresShape& s,
                                const GpuTarget& target) {
  DS_CHECK(s.begin >= 0 && s.begin < s.end && s.end <= s.x_stride);
  const int64_t cols = s.end - s.begin;
  // Vectors start at multiples of their size.
  const int64_t vec = std::gcd(VectorOf(cols, {s.x}), s.begin);
  const int64_t threads =
      std::min<int64_t>(256, RoundUp(CeilDiv(cols, vec), 32));
  KernelSpec k;
  k.source = "norm_over.cuh";
  k.entry =
      EntryText("SumSquares", {CudaTypeName(s.x), s.begin, s.end, s.x_stride,
                               CountNumber(s.count), s.max_rows, vec,
                               WidthOf(s.x, vec, s.x_stride), threads});
  k.label = absl::StrCat("sum_squares ", cols);
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeRmsNormOver(const RmsNormOverShape& s,
                                 const GpuTarget& target) {
  DS_CHECK(s.cols > 0 && s.columns_of_all > 0 && s.max_rows > 0);
  const int64_t vec = VectorOf(s.cols, {s.x, s.y});
  const int64_t vectors = CeilDiv(s.cols, vec);
  const int64_t threads = std::min<int64_t>(256, RoundUp(vectors, 32));
  KernelSpec k;
  k.source = "norm_over.cuh";
  k.entry = EntryText(
      "RmsNormOver",
      {CudaTypeName(s.x), CudaTypeName(s.y), s.cols, s.x_stride, s.y_stride,
       FloatBitsText(1.0 / static_cast<double>(s.columns_of_all)),
       FloatBitsText(s.eps), CountNumber(s.count), s.max_rows, vec,
       WidthOf(s.x, vec, s.x_stride), WidthOf(s.y, vec, s.y_stride),
       WidthOf(DType::kF32, vec, vec), threads});
  k.label = absl::StrCat("rms_norm_over ", s.cols);
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.grid[1].times = CeilDiv(vectors, threads);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeScale(const ScaleShape& s, const GpuTarget& target) {
  DS_CHECK(s.cols > 0 && s.max_rows > 0);
  const int64_t vec = VectorOf(s.cols, {s.x, s.y});
  const int64_t vectors = CeilDiv(s.cols, vec);
  const int64_t threads = std::min<int64_t>(256, RoundUp(vectors, 32));
  KernelSpec k;
  k.source = "scale.cuh";
  k.entry = EntryText(
      "Scale",
      {CudaTypeName(s.x), CudaTypeName(s.y), s.cols, s.x_stride, s.y_stride,
       s.second_stride, BoolText(s.softcap), FloatBitsText(s.factor),
       BoolText(s.second), CountNumber(s.count), s.max_rows, vec,
       WidthOf(s.x, vec, s.x_stride), WidthOf(s.y, vec, s.y_stride),
       WidthOf(s.y, vec, s.second_stride), threads});
  k.label = absl::StrCat(s.softcap ? "softcap " : "scale ", s.cols,
                         s.second ? " add" : "");
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.grid[1].times = CeilDiv(vectors, threads);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeElementwise(const ElementwiseShape& s,
                                 const GpuTarget& target) {
  using Second = ElementwiseShape::Second;
  DS_CHECK(s.cols > 0 && s.max_rows > 0);
  DS_CHECK(!s.gated || (s.cols % 2 == 0 && s.act.has_value()));
  const int64_t vec = VectorOf(s.cols, {s.x, s.y});
  const int64_t y_vec = s.gated ? vec / 2 : vec;
  const int64_t vectors = CeilDiv(s.cols, vec);
  const int64_t threads = std::min<int64_t>(256, RoundUp(vectors, 32));
  // Several vectors a thread hide latency where rows are many, unless the last
  // block of a row would idle.
  int64_t steps = 1;
  if (s.max_rows >= 64) {
    for (steps = 4; steps > 1; steps /= 2) {
      const int64_t covered = RoundUp(vectors, threads * steps);
      if (covered * 7 <= vectors * 8) break;
    }
  }
  KernelSpec k;
  k.source = "elementwise.cuh";
  k.entry = EntryText("Elementwise", {CudaTypeName(s.x),
                                      CudaTypeName(s.y),
                                      s.cols,
                                      s.x_stride,
                                      s.y_stride,
                                      s.second_stride,
                                      ActNumber(s.act),
                                      BoolText(s.gated),
                                      BoolText(s.bias),
                                      BoolText(s.gather),
                                      static_cast<int>(s.second),
                                      CountNumber(s.count),
                                      s.max_rows,
                                      vec,
                                      WidthOf(s.x, vec, s.x_stride),
                                      WidthOf(s.y, y_vec, s.y_stride),
                                      WidthOf(s.y, y_vec, s.second_stride),
                                      WidthOf(DType::kF32, vec, vec),
                                      threads,
                                      steps});
  k.label = absl::StrCat("elementwise ", s.cols, s.bias ? " bias" : "",
                         s.gated ? " gated"
                         : s.act ? " act"
                                 : "",
                         s.second == Second::kAdd   ? " add"
                         : s.second == Second::kMul ? " mul"
                                                    : "",
                         s.gather ? " gather" : "");
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.grid[1].times = CeilDiv(vectors, threads * steps);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeRope(const RopeShape& s, const GpuTarget& target) {
  DS_CHECK(s.heads > 0 && s.max_rows > 0);
  DS_CHECK(s.rotary_dim % 2 == 0 && s.rotary_dim <= s.head_dim);
  DS_CHECK(s.ntk_factor == 0 || s.long_from.value_or(0) > 0);
  const int64_t items = s.heads * (s.head_dim - s.rotary_dim / 2);
  const int64_t threads = std::min<int64_t>(256, RoundUp(items, 32));
  KernelSpec k;
  k.source = "rope.cuh";
  const std::string all = absl::StrCat(
      CudaTypeName(s.x), ", ", CudaTypeName(s.y), ", ", s.heads, ", ",
      s.head_dim, ", ", s.rotary_dim, ", ", s.x_stride, ", ", s.y_stride, ", ",
      BoolText(s.style == RopeStyle::kInterleaved), ", ",
      FloatBitsText(s.scale), ", ", s.max_rows, ", ", threads);
  if (s.ntk_factor > 0) {
    k.entry = EntryText("RopeDynamic",
                        {all, *s.long_from, FloatBitsText(s.ntk_factor)});
  } else if (s.long_from.has_value()) {
    k.entry = EntryText("RopeOfLength", {all, *s.long_from});
  } else {
    k.entry = EntryText("Rope", {all});
  }
  k.label = absl::StrCat("rope ", s.heads, "x", s.head_dim);
  k.grid[0] = RowsExtent(CountDim::kTokens, s.max_rows, 1);
  k.grid[1].times = CeilDiv(items, threads);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

KernelSpec SpecializeUngather(const UngatherShape& s, const GpuTarget& target) {
  DS_CHECK(s.world > 0 && s.total > 0 && s.max_rows > 0);
  // A vector must not cross a border between ranks.
  const int64_t vec =
      s.total % s.world == 0 ? VectorOf(s.total / s.world, {s.type}) : 1;
  const int64_t vectors = s.total / vec;
  const int64_t threads = std::min<int64_t>(256, RoundUp(vectors, 32));
  KernelSpec k;
  k.source = "ungather.cuh";
  k.entry = EntryText(
      "Ungather",
      {CudaTypeName(s.type), s.world, s.part, s.total, CountNumber(s.count),
       s.max_rows, vec,
       std::min(WidthOf(s.type, vec, s.part), WidthOf(s.type, vec, s.total)),
       threads});
  k.label = absl::StrCat("ungather ", s.world, "x", s.part);
  k.grid[0] = RowsExtent(s.count, s.max_rows, 1);
  k.grid[1].times = CeilDiv(vectors, threads);
  k.block[0] = static_cast<uint32_t>(threads);
  k.programmatic = target.hopper();
  return k;
}

namespace {

// As in sample.cuh.
constexpr int64_t kSampleThreads = 1024, kSamplePartialBytes = 32;
constexpr int64_t kMaxSampleParts = 32;

// Ids of a part: 2048 or more, so that half of a block's threads have a vector,
// in parts enough for two blocks a multiprocessor of sm_90. Not a function of
// the target, since the scratch's size depends on it.
int64_t SampleChunk(const SampleShape& s) {
  const int64_t wanted =
      std::clamp<int64_t>(264 / s.max_rows, 1, kMaxSampleParts);
  return RoundUp(std::max<int64_t>(CeilDiv(s.vocab, wanted), 2048), 4);
}
int64_t SampleParts(const SampleShape& s) {
  return CeilDiv(s.vocab, SampleChunk(s));
}

}  // namespace

int64_t SampleScratchBytes(const SampleShape& s) {
  return s.max_rows * (SampleParts(s) * kSamplePartialBytes + 2 * 4 * s.vocab);
}

KernelSpec SpecializeSample(const SampleShape& s, const GpuTarget& target) {
  DS_CHECK(s.vocab > 0 && s.max_rows > 0 && s.logits_stride >= s.vocab);
  KernelSpec k;
  k.source = "sample.cuh";
  k.entry =
      EntryText("Sample", {s.vocab, s.logits_stride, s.max_rows, SampleParts(s),
                           SampleChunk(s), BoolText(s.logits_stride % 4 == 0)});
  k.label = absl::StrCat("sample ", s.vocab);
  k.grid[0].times = SampleParts(s);
  k.grid[1] = RowsExtent(CountDim::kRows, s.max_rows, 1);
  k.block[0] = kSampleThreads;
  k.programmatic = target.hopper();
  return k;
}

}  // namespace deepslice
