#include "kernels/cuda/rows.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kernels/cuda/service.h"

namespace deepslice {
namespace {

const GpuTarget kHopper = {"sm_90a", 9, 0, false, 132, 232448};
const GpuTarget kAmpere = {"compute_80", 8, 0, true, 128, 101376};

// Template arguments of the entry.
std::vector<std::string> Args(const KernelSpec& k) {
  const size_t begin = k.entry.find('<');
  return absl::StrSplit(
      absl::string_view(k.entry).substr(begin + 1, k.entry.size() - begin - 2),
      ", ");
}
// From the end: the launch geometry stands there.
int64_t Arg(const KernelSpec& k, int from_end) {
  const std::vector<std::string> args = Args(k);
  return std::stoll(args[args.size() - from_end]);
}

TEST(SpecializeEmbed, TakesTheWidestPiecesThatRowsAllow) {
  EXPECT_EQ(
      SpecializeEmbed({DType::kBF16, DType::kBF16, 128256, 2048, 0, true},
                      kHopper)
          .entry,
      "Embed<bf16, bf16, 128256, 2048, 0, true, 1, 1, 8, 16, 16, 256>");
  // Rows of 10 bf16 start at multiples of 4 bytes, of 10 float at 8.
  EXPECT_EQ(SpecializeEmbed({DType::kBF16, DType::kF32, 131, 10, 66}, kHopper)
                .entry,
            "Embed<bf16, float, 131, 10, 66, false, 1, 1, 2, 4, 8, 32>");
  EXPECT_EQ(Arg(SpecializeEmbed({DType::kF16, DType::kF16, 131, 7}, kHopper),
                3),
            2);
}

TEST(SpecializeEmbed, StartsEarlyOnlyWhereTheCardCan) {
  const EmbedShape shape = {DType::kF32, DType::kF32, 131, 48};
  EXPECT_TRUE(SpecializeEmbed(shape, kHopper).programmatic);
  EXPECT_FALSE(SpecializeEmbed(shape, kAmpere).programmatic);
}

TEST(SpecializeNorm, GivesShortRowsAWarpAndLongOnesABlock) {
  NormShape s = {DType::kBF16, DType::kBF16, 576, 576, 576};
  s.max_rows = 2048;
  KernelSpec k = SpecializeNorm(s, kHopper);
  EXPECT_EQ(k.block, (std::array<uint32_t, 3>{32, 4, 1}));
  EXPECT_EQ(k.grid[0].per_block, 4);
  s.cols = s.x_stride = s.y_stride = 4096;
  k = SpecializeNorm(s, kHopper);
  EXPECT_EQ(k.block, (std::array<uint32_t, 3>{256, 1, 1}));
  EXPECT_EQ(k.grid[0].per_block, 1);
  s.max_rows = 3;  // one vector a thread
  EXPECT_EQ(SpecializeNorm(s, kHopper).block[0], 512u);
}

// A block of 1024 threads has 64 registers a thread.
TEST(SpecializeNorm, HoldsARowInRegistersOnlyIfItFits) {
  NormShape s = {DType::kF32, DType::kF32, 32768, 32768, 32768};
  EXPECT_EQ(Args(SpecializeNorm(s, kHopper)).back(), "true");
  s.cols = s.x_stride = s.y_stride = 36864;
  EXPECT_EQ(Args(SpecializeNorm(s, kHopper)).back(), "false");
  s.max_rows = 2048;  // 256 threads with 64 floats each hold 16384
  EXPECT_EQ(Args(SpecializeNorm(s, kHopper)).back(), "false");
  s.cols = s.x_stride = s.y_stride = 16384;
  EXPECT_EQ(Args(SpecializeNorm(s, kHopper)).back(), "true");
}

TEST(SpecializeSumSquares, StartsVectorsWhereTheColumnsDo) {
  SumSquaresShape s = {DType::kBF16, 0, 2048, 2048};
  KernelSpec k = SpecializeSumSquares(s, kHopper);
  EXPECT_EQ(k.entry, "SumSquares<bf16, 0, 2048, 2048, 1, 1, 8, 16, 256>");
  s.begin = 20;  // rows of 2048 from column 20 on: pieces of 8 bytes
  s.end = 2020;
  k = SpecializeSumSquares(s, kHopper);
  EXPECT_EQ(k.entry, "SumSquares<bf16, 20, 2020, 2048, 1, 1, 4, 8, 256>");
  EXPECT_EQ(k.grid[0].dim, CountDim::kTokens);
}

TEST(SpecializeRmsNormOver, DividesByTheColumnsOfAllRanks) {
  RmsNormOverShape s = {DType::kBF16, DType::kBF16, 1024, 1024, 1024};
  s.columns_of_all = 2048;
  s.eps = 1e-5;
  EXPECT_EQ(SpecializeRmsNormOver(s, kHopper).entry,
            "RmsNormOver<bf16, bf16, 1024, 1024, 1024, 0x3a000000u, "
            "0x3727c5acu, 1, 1, 8, 16, 16, 16, 128>");
}

TEST(SpecializeScale, AddsAndCaps) {
  ScaleShape s = {DType::kBF16, DType::kBF16, 2048, 2048, 2048, 2048};
  s.factor = 0.25;
  s.second = true;
  KernelSpec k = SpecializeScale(s, kHopper);
  EXPECT_EQ(k.entry,
            "Scale<bf16, bf16, 2048, 2048, 2048, 2048, false, 0x3e800000u, "
            "true, 1, 1, 8, 16, 16, 16, 256>");
  EXPECT_EQ(k.label, "scale 2048 add");
  s.softcap = true;
  s.second = false;
  k = SpecializeScale(s, kHopper);
  EXPECT_NE(k.entry.find("true, 0x3e800000u, false"), std::string::npos);
  EXPECT_EQ(k.label, "softcap 2048");
}

TEST(SpecializeRope, OfLengthTakesTheBorder) {
  RopeShape s = {DType::kBF16, DType::kBF16, 6, 96, 96, 576, 576};
  EXPECT_EQ(SpecializeRope(s, kHopper).entry,
            "Rope<bf16, bf16, 6, 96, 96, 576, 576, false, 0x3f800000u, 1, 256>");
  s.long_from = 0;
  EXPECT_EQ(SpecializeRope(s, kHopper).entry,
            "RopeOfLength<bf16, bf16, 6, 96, 96, 576, 576, false, 0x3f800000u, "
            "1, 256, 0>");
  s.long_from = 2048;
  s.ntk_factor = 2;
  EXPECT_EQ(SpecializeRope(s, kHopper).entry,
            "RopeDynamic<bf16, bf16, 6, 96, 96, 576, 576, false, 0x3f800000u, "
            "1, 256, 2048, 0x40000000u>");
}

TEST(SpecializeNorm, SaysItsEpsilonInBits) {
  NormShape s = {DType::kF32, DType::kF32, 48, 48, 48};
  s.eps = 1e-5;
  EXPECT_NE(SpecializeNorm(s, kHopper).entry.find("0x3727c5acu"),
            std::string::npos);
}

TEST(SpecializeNorm, ReadsAStridedRowInNarrowPieces) {
  NormShape s = {DType::kBF16, DType::kBF16, 48, 50, 48};
  const KernelSpec k = SpecializeNorm(s, kHopper);
  EXPECT_EQ(Arg(k, 6), 4);   // x: 100 bytes a row
  EXPECT_EQ(Arg(k, 5), 16);  // y: 96
}

TEST(SpecializeElementwise, CoversEveryColumnOnce) {
  for (const int64_t cols : {2, 10, 48, 1022, 3072, 28672, 29568}) {
    for (const int64_t rows : {1, 5, 2048}) {
      for (const DType t : {DType::kF32, DType::kBF16}) {
        ElementwiseShape s = {t, t, cols, cols, cols / 2};
        s.act = Act::kSilu;
        s.gated = true;
        s.max_rows = rows;
        const KernelSpec k = SpecializeElementwise(s, kHopper);
        const int64_t steps = Arg(k, 1), threads = Arg(k, 2), vec = Arg(k, 7);
        EXPECT_EQ(cols % vec, 0) << cols;
        EXPECT_GE(vec, 2) << "a gate and its up column";
        const int64_t per_block = steps * threads * vec;
        EXPECT_GE(k.grid[1].times * per_block, cols) << k.entry;
        EXPECT_LT((k.grid[1].times - 1) * per_block, cols) << k.entry;
        EXPECT_EQ(k.block[0], threads);
      }
    }
  }
}

TEST(SpecializeElementwise, NamesWhatItDoes) {
  ElementwiseShape s = {DType::kBF16, DType::kBF16, 3072, 3072, 3072};
  s.second_stride = 3072;
  s.bias = true;
  s.act = Act::kGelu;
  s.second = ElementwiseShape::Second::kAdd;
  EXPECT_EQ(SpecializeElementwise(s, kHopper).label,
            "elementwise 3072 bias act add");
}

TEST(SpecializeUngather, KeepsAVectorWithinARank) {
  // Ranks have 43 or 44 columns of 131.
  EXPECT_EQ(Arg(SpecializeUngather({DType::kF32, 3, 44, 131}, kHopper), 3), 1);
  // Ranks have 44 columns each, in blocks of 46.
  const KernelSpec k =
      SpecializeUngather({DType::kF32, 3, 46, 132}, kHopper);
  EXPECT_EQ(Arg(k, 3), 4);
  EXPECT_EQ(Arg(k, 2), 8);  // 46 floats: multiples of 8 bytes
}

TEST(SpecializeRows, FixedCountsMakeFixedGrids) {
  UngatherShape s = {DType::kF32, 2, 66, 131};
  s.count = CountDim::kNone;
  s.max_rows = 5;
  EXPECT_EQ(SpecializeUngather(s, kHopper).grid[0].times, 5);
  EXPECT_EQ(SpecializeUngather(s, kHopper).grid[0].dim, CountDim::kNone);
  s.count = CountDim::kRows;
  EXPECT_EQ(SpecializeUngather(s, kHopper).grid[0].times, 1);
  EXPECT_EQ(SpecializeUngather(s, kHopper).grid[0].dim, CountDim::kRows);
}

TEST(SpecializeSample, PartsCoverTheVocabularyWithoutAnEmptyOne) {
  for (const int64_t vocab : {1, 131, 2048, 2049, 50257, 128256, 151936}) {
    for (const int64_t rows : {1, 8, 32, 256, 1000}) {
      const SampleShape s = {vocab, vocab, rows};
      const KernelSpec k = SpecializeSample(s, kHopper);
      const int64_t chunk = Arg(k, 2), parts = Arg(k, 3);
      EXPECT_EQ(chunk % 4, 0);
      EXPECT_LE(parts, 32);
      EXPECT_GE(parts * chunk, vocab);
      EXPECT_LT((parts - 1) * chunk, vocab);
      EXPECT_EQ(k.grid[0].times, parts);
      EXPECT_EQ(SampleScratchBytes(s), rows * (parts * 32 + 8 * vocab));
    }
  }
}

TEST(SpecializeSample, ReadsWideOnlyAlignedRows) {
  EXPECT_EQ(Args(SpecializeSample({131, 131, 1}, kHopper)).back(), "false");
  EXPECT_EQ(Args(SpecializeSample({131, 132, 1}, kHopper)).back(), "true");
}

TEST(ServiceKernels, HaveTheLabelsThatTheRuntimeLooksFor) {
  std::vector<std::string> labels;
  for (const KernelSpec& k : ServiceKernels(kHopper)) {
    EXPECT_FALSE(k.programmatic) << k.label;
    labels.push_back(k.label);
  }
  for (const char* want :
       {"fill_random f32", "fill_random f16", "fill_random bf16",
        "all_reduce_one_shot f32", "all_reduce_one_shot f16",
        "all_reduce_one_shot bf16", "read_bandwidth"}) {
    EXPECT_EQ(std::count(labels.begin(), labels.end(), want), 1) << want;
  }
}

}  // namespace
}  // namespace deepslice
