#include "kernels/cuda/rows.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// A float literal by its bits: a template argument can't be one.
std::string Bits(double value) {
  const float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return absl::StrFormat("0x%08xu", bits);
}
absl::string_view Bool(bool b) { return b ? "true" : "false"; }

std::string Entry(absl::string_view name,
                  std::initializer_list<absl::AlphaNum> args) {
  return absl::StrCat(
      name, "<",
      absl::StrJoin(args, ", ",
                    [](std::string* out, const absl::AlphaNum& a) {
                      absl::StrAppend(out, a);
                    }),
      ">");
}

// Elements that a thread takes at a time: at most 16 bytes of the wider type,
// and a divisor of the columns.
int64_t VectorOf(int64_t cols, std::initializer_list<DType> types) {
  int64_t v = 8;
  for (DType t : types) v = std::min(v, 16 / DTypeSize(t));
  return std::gcd(v, cols);
}

// Bytes of the widest piece to which every vector of a row is aligned. Buffers
// and weights start at multiples of 256.
int64_t WidthOf(DType type, int64_t vec, int64_t stride) {
  return std::gcd<int64_t>(
      16, std::gcd(vec * DTypeSize(type), stride * DTypeSize(type)));
}

// per_block rows in each block.
GridExtent RowsExtent(CountDim count, int64_t max_rows, int64_t per_block) {
  if (count == CountDim::kNone) return {CeilDiv(max_rows, per_block), 1, count};
  return {1, per_block, count};
}

int CountNumber(CountDim count) { return static_cast<int>(count); }
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
  k.entry = Entry(
      "Embed",
      {CudaTypeName(s.table), CudaTypeName(s.y), s.rows, s.cols, s.begin,
       Bool(s.has_sampled), CountNumber(s.count), s.max_rows, vec,
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
  k.entry = Entry(
      "Norm",
      {CudaTypeName(s.x), CudaTypeName(s.y), s.cols, s.x_stride, s.y_stride,
       Bool(s.layer_norm), Bool(s.bias), Bool(s.gather), Bits(s.eps),
       CountNumber(s.count), s.max_rows, vec, WidthOf(s.x, vec, s.x_stride),
       WidthOf(s.y, vec, s.y_stride), WidthOf(DType::kF32, vec, vec), threads,
       rows_per_block, Bool(is_held)});
  k.label = absl::StrCat(s.layer_norm ? "layer_norm " : "rms_norm ", s.cols);
  k.grid[0] = RowsExtent(s.count, s.max_rows, rows_per_block);
  k.block = {static_cast<uint32_t>(threads),
             static_cast<uint32_t>(rows_per_block), 1};
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
  k.entry = Entry(
      "Elementwise",
      {CudaTypeName(s.x), CudaTypeName(s.y), s.cols, s.x_stride, s.y_stride,
       s.second_stride, ActNumber(s.act), Bool(s.gated), Bool(s.bias),
       Bool(s.gather), static_cast<int>(s.second), CountNumber(s.count),
       s.max_rows, vec, WidthOf(s.x, vec, s.x_stride),
       WidthOf(s.y, y_vec, s.y_stride), WidthOf(s.y, y_vec, s.second_stride),
       WidthOf(DType::kF32, vec, vec), threads, steps});
  k.label = absl::StrCat("elementwise ", s.cols, s.bias ? " bias" : "",
                         s.gated ? " gated" : s.act ? " act" : "",
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
  const int64_t items = s.heads * (s.head_dim - s.rotary_dim / 2);
  const int64_t threads = std::min<int64_t>(256, RoundUp(items, 32));
  KernelSpec k;
  k.source = "rope.cuh";
  k.entry = Entry(
      "Rope", {CudaTypeName(s.x), CudaTypeName(s.y), s.heads, s.head_dim,
               s.rotary_dim, s.x_stride, s.y_stride,
               Bool(s.style == RopeStyle::kInterleaved), Bits(s.scale),
               s.max_rows, threads});
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
  k.entry = Entry(
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
  k.entry = Entry("Sample", {s.vocab, s.logits_stride, s.max_rows,
                             SampleParts(s), SampleChunk(s),
                             Bool(s.logits_stride % 4 == 0)});
  k.label = absl::StrCat("sample ", s.vocab);
  k.grid[0].times = SampleParts(s);
  k.grid[1] = RowsExtent(CountDim::kRows, s.max_rows, 1);
  k.block[0] = kSampleThreads;
  k.programmatic = target.hopper();
  return k;
}

}  // namespace deepslice
