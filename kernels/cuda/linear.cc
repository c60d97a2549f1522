// Which kernel and which literals a linear layer of few tokens takes.
#include "kernels/cuda/linear.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/linear_tiling.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// LinearShape<...> of linear_shape.cuh.
std::string ShapeLiteral(const LinearShape& s) {
  std::vector<std::string> options;
  const auto option = [&](bool on, const char* name) {
    if (on) options.push_back(name);
  };
  option(s.by_rows || s.gather, "kByRows");
  option(s.gather, "kGather");
  option(s.norm == FusedNorm::kRms, "kRmsNorm");
  option(s.norm == FusedNorm::kLayer, "kLayerNorm");
  option(s.norm_bias, "kNormBias");
  option(s.bias, "kBias");
  option(s.residual, "kResidual");
  option(s.gated, "kGated");
  const uint32_t eps = std::bit_cast<uint32_t>(static_cast<float>(s.eps));
  return absl::StrCat(
      "LinearShape<", s.in, ", ", s.out, ", ", s.x_stride, ", ", s.y_stride,
      ", ", s.residual ? s.residual_stride : 0, ", ", s.tokens, ", ",
      options.empty() ? "0" : absl::StrJoin(options, " | "), ", 0x",
      absl::Hex(s.norm == FusedNorm::kNone ? 0 : eps, absl::kZeroPad8), "u, ",
      s.act.has_value() ? static_cast<int>(*s.act) : -1, ">");
}

std::string Label(const LinearShape& s, const char* kernel) {
  std::string label =
      absl::StrCat(kernel, " ", s.in, "x", s.out, " t", s.tokens);
  if (s.gather) absl::StrAppend(&label, " gather");
  if (s.norm == FusedNorm::kRms) absl::StrAppend(&label, " rms");
  if (s.norm == FusedNorm::kLayer) absl::StrAppend(&label, " layer_norm");
  if (s.bias) absl::StrAppend(&label, " bias");
  if (s.act.has_value()) {
    const auto names = EnumValues("Act");
    absl::StrAppend(&label, " ", names[static_cast<int>(*s.act)]);
  }
  if (s.gated) absl::StrAppend(&label, " gated");
  if (s.residual) absl::StrAppend(&label, " residual");
  return label;
}

KernelSpec SpecializeLinearSimple(const LinearShape& s,
                                  const GpuTarget& target) {
  constexpr int kWarps = 4, kRowsPerWarp = 2;
  // The widest vectors that divide rows of x and of w: at most 4 floats.
  int vec = 4;
  while (s.in % vec != 0 || s.x_stride % vec != 0) vec /= 2;
  const int group = static_cast<int>(
      std::min<uint64_t>(8, std::bit_ceil(static_cast<uint64_t>(s.tokens))));
  KernelSpec spec;
  spec.source = "linear_simple.cuh";
  spec.entry =
      absl::StrCat("LinearSimple<", CudaTypeName(s.x), ", ",
                   CudaTypeName(s.weight), ", ", CudaTypeName(s.y), ", ",
                   ShapeLiteral(s), ", ", kWarps, ", ", vec, ", ", group, ">");
  spec.label = Label(s, "linear_simple");
  spec.grid[0].times = CeilDiv(s.out, kWarps * kRowsPerWarp);
  spec.block = {kWarps * 32, 1, 1};
  spec.shared_bytes = s.norm == FusedNorm::kNone ? 0 : s.tokens * 8;
  spec.programmatic = target.hopper();
  return spec;
}

}  // namespace

KernelSpec SpecializeLinearMma(const LinearShape& s, const GpuTarget& target,
                               const LinearTiling& t) {
  DS_CHECK(LinearMmaFits(s) && 16 * t.tiles <= s.out);
  DS_CHECK(t.cluster == 1 || target.hopper());
  const int threads = t.warps * 32;
  // As many blocks as the registers are to suffice for.
  const int blocks = std::clamp(65536 / (threads * t.registers), 1, 32);
  KernelSpec spec;
  spec.source = "linear_mma.cuh";
  spec.entry = absl::StrCat("LinearMma<", CudaTypeName(s.x), ", ",
                            CudaTypeName(s.y), ", ", ShapeLiteral(s), ", ",
                            t.tiles, ", ", t.warps, ", ", t.unroll, ", ",
                            t.stages, ", ", blocks, ", ", t.cluster, ">");
  spec.label = Label(s, "linear_mma");
  spec.grid[0].times = CeilDiv(s.out, 16 * t.tiles) * t.cluster;
  spec.block = {static_cast<uint32_t>(threads), 1, 1};
  spec.shared_bytes = LinearMmaShared(s, t);
  spec.programmatic = target.hopper();
  return spec;
}

std::optional<KernelSpec> SpecializeLinear(const LinearShape& s,
                                           const GpuTarget& target) {
  if (s.tokens > kMaxLinearTokens) return std::nullopt;
  DS_CHECK(s.in > 0 && s.out > 0 && s.tokens > 0);
  DS_CHECK(!s.gated || s.out % 2 == 0);
  DS_CHECK(!s.norm_bias || s.norm == FusedNorm::kLayer);
  if (!LinearMmaFits(s)) return SpecializeLinearSimple(s, target);
  return SpecializeLinearMma(s, target, ChooseLinearTiling(s, target));
}

}  // namespace deepslice
