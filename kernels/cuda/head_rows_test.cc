#include "kernels/cuda/head_rows.h"

#include <array>
#include <string>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

const GpuTarget kHopper = {"sm_90a", 9, 0, false, 132, 232448};
const GpuTarget kAmpere = {"compute_80", 8, 0, true, 128, 101376};

TEST(SpecializeHeadNorm, GivesEachHeadAWarp) {
  HeadNormShape s = {DType::kBF16, DType::kBF16, 32, 128, 4096, 4096};
  s.eps = 1e-6;
  s.max_rows = 8;
  const KernelSpec k = SpecializeHeadNorm(s, kHopper);
  EXPECT_EQ(k.entry,
            "HeadNorm<bf16, bf16, 32, 128, 4096, 4096, false, false, false, "
            "0x358637bdu, 1, 8, 8, 16, 16, 16, 4, true>");
  EXPECT_EQ(k.block, (std::array<uint32_t, 3>{32, 4, 1}));
  EXPECT_EQ(k.grid[0].dim, CountDim::kTokens);
  EXPECT_EQ(k.grid[1].times, 8);
  EXPECT_TRUE(k.programmatic);
  EXPECT_FALSE(SpecializeHeadNorm(s, kAmpere).programmatic);
}

TEST(SpecializeHeadNorm, KnowsWhatHeadsAreAlignedTo) {
  // Heads of 10 half numbers begin at multiples of 4 bytes, whatever the row.
  HeadNormShape s = {DType::kF16, DType::kF16, 3, 10, 64, 64};
  s.layer_norm = s.bias = s.each = true;
  const KernelSpec k = SpecializeHeadNorm(s, kHopper);
  EXPECT_NE(k.entry.find("true, true, true, 0x00000000u, 1, 1, 2, 4, 4, 8, 3"),
            std::string::npos)
      << k.entry;
  EXPECT_EQ(k.grid[1].times, 1);
  // 4096 numbers are too many for a lane's registers.
  s.head_dim = 4096;
  s.x_stride = s.y_stride = 3 * 4096;
  EXPECT_NE(SpecializeHeadNorm(s, kHopper).entry.find(", false>"),
            std::string::npos);
}

TEST(SpecializeConcatHeads, KeepsVectorsWithinAPart) {
  ConcatHeadsShape s = {DType::kBF16, DType::kBF16, 16, 512, 64};
  s.a_stride = 8192;
  s.b_stride = 1024;
  s.y_stride = 9216;
  KernelSpec k = SpecializeConcatHeads(s, kHopper);
  EXPECT_EQ(k.entry,
            "ConcatHeads<bf16, bf16, 16, 512, 64, 8192, 1024, 9216, 1, 1, 8, "
            "16, 16, 16, 256>");
  EXPECT_EQ(k.grid[1].times, 5);  // 1152 vectors
  s.of_b = 3;
  k = SpecializeConcatHeads(s, kHopper);
  EXPECT_NE(k.entry.find("1, 1, 1, 2, 2, 2, 256>"), std::string::npos)
      << k.entry;
}

TEST(SpecializeHeadLinear, HasBlocksForRowsOrColumns) {
  HeadLinearShape s = {DType::kBF16, DType::kBF16, DType::kBF16, 16, 512, 128};
  s.x_stride = 16 * 512;
  s.y_stride = 16 * 128;
  s.max_rows = 64;
  KernelSpec k = SpecializeHeadLinear(s, kHopper);
  EXPECT_EQ(k.entry,
            "HeadLinearRows<bf16, bf16, bf16, 16, 512, 128, 8192, 2048, 1, 64, "
            "4, 8, 16, 16, 8>");
  EXPECT_EQ(k.grid[0].times, 64);  // 2048 rows, 4 for each of 8 warps
  EXPECT_EQ(k.grid[1].per_block, 8);
  s.transposed = true;
  s.in = 128;
  s.out = 512;
  s.max_rows = 1;
  k = SpecializeHeadLinear(s, kHopper);
  EXPECT_EQ(k.entry,
            "HeadLinearColumns<bf16, bf16, bf16, 16, 128, 512, 8192, 2048, 1, "
            "1, 4, 4, 8, 1>");
  EXPECT_EQ(k.grid[0].times, 64);  // 4 blocks of 128 columns a head
  EXPECT_EQ(k.block[0], 256u);
}

TEST(SpecializeHeadLinear, TakesRowsOfOneHeadInAWarp) {
  HeadLinearShape s = {DType::kF32, DType::kF32, DType::kF32, 3, 7, 5};
  s.x_stride = 21;
  s.y_stride = 15;
  const KernelSpec k = SpecializeHeadLinear(s, kHopper);
  EXPECT_NE(k.entry.find("1, 1, 1, 1, 4, 4, 1>"), std::string::npos) << k.entry;
  EXPECT_EQ(k.grid[0].times, 2);  // 15 rows, one for each of 8 warps
}

}  // namespace
}  // namespace deepslice
