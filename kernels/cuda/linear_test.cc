#include "kernels/cuda/linear.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/linear_tiling.h"

namespace deepslice {
namespace {

const GpuTarget kHopper = {"sm_90a", 9, 0, false, 132, 232448};
const GpuTarget kAmpere = {"compute_80", 8, 0, true, 128, 101376};

LinearShape Shape(int64_t in, int64_t out, int64_t tokens,
                  DType type = DType::kBF16) {
  LinearShape s;
  s.x = s.weight = s.y = type;
  s.in = s.x_stride = in;
  s.out = s.y_stride = s.residual_stride = out;
  s.tokens = tokens;
  return s;
}

TEST(SpecializeLinear, NamesTheInstanceWithAllItsLiterals) {
  LinearShape s = Shape(4096, 28672, 1);
  s.y_stride = 14336;
  s.norm = FusedNorm::kRms;
  s.eps = 1e-5;
  s.act = Act::kSilu;
  s.gated = true;
  const KernelSpec k = SpecializeLinearMma(
      s, kHopper,
      {.tiles = 2, .warps = 4, .unroll = 2, .stages = 3, .registers = 96});
  EXPECT_EQ(k.source, "linear_mma.cuh");
  EXPECT_EQ(k.entry,
            "LinearMma<bf16, bf16, LinearShape<4096, 28672, 4096, 14336, 0, 1, "
            "kRmsNorm | kGated, 0x3727c5acu, 0>, 2, 4, 2, 3, 5, 1>");
  EXPECT_EQ(k.label, "linear_mma 4096x28672 t1 rms silu gated");
  EXPECT_EQ(k.grid[0].times, 28672 / 32);
  EXPECT_EQ(k.grid[0].dim, CountDim::kNone);
  EXPECT_EQ(k.block[0], 128);
  EXPECT_TRUE(k.programmatic);
  EXPECT_EQ(SpecializeLinear(s, kHopper)->label, k.label);
  EXPECT_FALSE(SpecializeLinear(s, kAmpere)->programmatic);
}

TEST(SpecializeLinear, GathersByRowsAndMayWriteFloat) {
  LinearShape s = Shape(576, 49152, 5);
  s.y = DType::kF32;
  s.gather = true;
  s.norm = FusedNorm::kLayer;
  s.eps = 1e-6;
  s.norm_bias = s.bias = s.residual = true;
  s.residual_stride = 49160;
  const auto k = SpecializeLinear(s, kHopper);
  EXPECT_TRUE(absl::StartsWith(
      k->entry,
      "LinearMma<bf16, float, LinearShape<576, 49152, 576, 49152, 49160, 5, "
      "kByRows | kGather | kLayerNorm | kNormBias | kBias | kResidual, "
      "0x358637bdu, -1>, "))
      << k->entry;
}

TEST(SpecializeLinear, LeavesManyTokensToOthers) {
  EXPECT_TRUE(SpecializeLinear(Shape(64, 48, 32), kHopper).has_value());
  EXPECT_FALSE(SpecializeLinear(Shape(64, 48, 33), kHopper).has_value());
}

TEST(SpecializeLinear, TakesTheSimpleKernelWhereRowsDoNotFitTheTensorCore) {
  const auto source = [](const LinearShape& s) {
    return SpecializeLinear(s, kHopper)->source;
  };
  LinearShape s = Shape(80, 48, 3);
  EXPECT_EQ(source(s), "linear_mma.cuh");
  s.x_stride = 84;
  EXPECT_EQ(source(s), "linear_simple.cuh");
  EXPECT_EQ(source(Shape(60, 48, 3)), "linear_simple.cuh");
  EXPECT_EQ(source(Shape(80, 15, 3)), "linear_simple.cuh");
  EXPECT_EQ(source(Shape(80, 48, 3, DType::kF32)), "linear_simple.cuh");
}

TEST(SpecializeLinear, SimpleKernelReadsVectorsThatDivideEveryRow) {
  const auto entry = [](int64_t in, int64_t x_stride, int64_t tokens) {
    LinearShape s = Shape(in, 13, tokens, DType::kF32);
    s.x_stride = x_stride;
    return SpecializeLinear(s, kAmpere)->entry;
  };
  // ..., warps, elements of a vector, tokens at a time.
  EXPECT_TRUE(absl::EndsWith(entry(60, 72, 3), ">, 4, 4, 4>"));
  EXPECT_TRUE(absl::EndsWith(entry(60, 74, 1), ">, 4, 2, 1>"));
  EXPECT_TRUE(absl::EndsWith(entry(61, 64, 20), ">, 4, 1, 8>"));
  LinearShape s = Shape(60, 13, 3, DType::kF32);
  const auto k = SpecializeLinear(s, kHopper);
  EXPECT_EQ(k->grid[0].times, 2);  // 4 warps of 2 rows
  EXPECT_EQ(k->shared_bytes, 0);
  s.norm = FusedNorm::kRms;
  EXPECT_EQ(SpecializeLinear(s, kHopper)->shared_bytes, 3 * 8);
}

TEST(ChooseLinearTiling, KeepsEverySmBusyWithoutCopiesOfX) {
  // One token: x is nothing. A wave of blocks that fill an SM each.
  const LinearShape one = Shape(14336, 4096, 1);
  const LinearTiling few = ChooseLinearTiling(one, kHopper);
  EXPECT_EQ(few.tiles, 2);
  EXPECT_EQ(few.cluster, 1);
  EXPECT_GT(LinearMmaShared(one, few), 150 << 10);
  // 32 tokens: x is as long as 32 rows of w, so blocks are large, and clusters
  // make enough of them.
  const LinearShape many = Shape(14336, 4096, 32);
  const LinearTiling t = ChooseLinearTiling(many, kHopper);
  EXPECT_EQ(t.tiles, 4);
  EXPECT_EQ(t.cluster, 2);
  EXPECT_EQ(ChooseLinearTiling(many, kAmpere).cluster, 1);
  // Two blocks on an SM, all in one wave.
  EXPECT_EQ(ChooseLinearTiling(Shape(4096, 28672, 32), kHopper).tiles, 7);
}

TEST(ChooseLinearTiling, CutsSmallLayersIntoManyBlocks) {
  EXPECT_EQ(ChooseLinearTiling(Shape(576, 960, 1), kHopper).tiles, 1);
  EXPECT_EQ(ChooseLinearTiling(Shape(1536, 576, 1), kHopper).tiles, 1);
}

TEST(ChooseLinearTiling, GivesAShortSumNoIdleWarps) {
  const LinearTiling t = ChooseLinearTiling(Shape(576, 576, 1), kHopper);
  EXPECT_EQ(t.warps * t.unroll * t.stages * 32, 576);
}

// What linear_mma.cuh asserts, and what an SM can hold.
TEST(ChooseLinearTiling, AlwaysFits) {
  for (const GpuTarget& target : {kHopper, kAmpere}) {
    for (int64_t in : {8, 72, 576, 1536, 4096, 11008, 28672}) {
      for (int64_t out : {16, 33, 50, 131, 960, 6144, 128256}) {
        for (int64_t tokens : {1, 3, 8, 12, 17, 32}) {
          for (FusedNorm norm :
               {FusedNorm::kNone, FusedNorm::kRms, FusedNorm::kLayer}) {
            LinearShape s = Shape(in, out, tokens);
            s.norm = norm;
            s.norm_bias = norm == FusedNorm::kLayer;
            const LinearTiling t = ChooseLinearTiling(s, target);
            SCOPED_TRACE(SpecializeLinearMma(s, target, t).entry);
            EXPECT_LE(16 * t.tiles, out);
            EXPECT_GE(t.warps, 1);
            EXPECT_LE(t.warps, 16);
            const int64_t step = 32 * t.cluster * t.warps * t.unroll;
            EXPECT_GE(t.stages, 1);
            EXPECT_LE(t.stages, (in + step - 1) / step);
            EXPECT_LE(t.registers * t.warps * 32, 65536);
            EXPECT_LE(LinearMmaShared(s, t), target.shared_bytes);
            EXPECT_EQ(16 * t.tiles % (2 * t.cluster), 0);
          }
        }
      }
    }
  }
}

TEST(ChooseLinearTiling, HasEnoughInFlightForTheShapesThatDecodeHangsOn) {
  for (int64_t tokens : {1, 8, 32}) {
    for (auto [in, out] : std::vector<std::pair<int64_t, int64_t>>{
             {4096, 6144}, {4096, 4096}, {4096, 28672}, {14336, 4096}}) {
      const LinearShape s = Shape(in, out, tokens);
      const LinearTiling t = ChooseLinearTiling(s, kHopper);
      const int64_t block = t.warps * t.stages * t.unroll * t.tiles * 1024;
      const int64_t blocks = SpecializeLinearMma(s, kHopper, t).grid[0].times;
      const int64_t by_shared = 227 * 1024 / (LinearMmaShared(s, t) + 1024);
      const int64_t on_sm = std::min((blocks + 131) / 132, by_shared);
      EXPECT_GE(on_sm * block, 48 << 10) << in << "x" << out << " t" << tokens;
    }
  }
}

}  // namespace
}  // namespace deepslice
