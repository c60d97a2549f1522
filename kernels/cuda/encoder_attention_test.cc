#include "kernels/cuda/encoder_attention.h"

#include <array>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

const GpuTarget kHopper = {"sm_90a", 9, 0, false, 132, 232448};
const GpuTarget kAmpere = {"compute_80", 8, 0, true, 128, 101376};

EncoderAttentionShape Bert() {
  EncoderAttentionShape s;
  s.type = DType::kBF16;
  s.heads = 12;
  s.head_dim = 64;
  s.q_stride = s.k_stride = s.v_stride = s.y_stride = 768;
  s.scale = 0.125;
  s.max_rows = 2048;
  return s;
}

TEST(SpecializeEncoderAttention, GivesABlockSixteenQueriesOfAHead) {
  const std::optional<KernelSpec> k =
      SpecializeEncoderAttention(Bert(), kHopper);
  ASSERT_TRUE(k.has_value());
  EXPECT_EQ(k->entry,
            "EncoderAttention<bf16, 12, 1, 0, 64, 768, 768, 768, 768, false, "
            "0x3e38aa3bu, 1, 2048, 4, 8, 16>");
  EXPECT_EQ(k->grid[0].times, 12);
  EXPECT_EQ(k->grid[1].dim, CountDim::kTokens);
  EXPECT_EQ(k->grid[1].per_block, 16);
  EXPECT_EQ(k->block, (std::array<uint32_t, 3>{128, 1, 1}));
  EXPECT_TRUE(k->programmatic);
  EXPECT_FALSE(SpecializeEncoderAttention(Bert(), kAmpere)->programmatic);
}

TEST(SpecializeEncoderAttention, NamesTheBucketsOfItsBiases) {
  EncoderAttentionShape s = Bert();
  s.relative = RelativeBiasShape{DType::kF32, 8, 20};
  s.count = CountDim::kSourceTokens;
  EXPECT_EQ(SpecializeEncoderAttention(s, kHopper)->entry,
            "EncoderAttentionRelative<bf16, RelativeBias<float, 8, true, 3, "
            "7>, 12, 1, 0, 64, 768, 768, 768, 768, false, 0x3e38aa3bu, 6, "
            "2048, 4, 8, 16>");
}

TEST(SpecializeEncoderAttention, TakesFewerQueriesOfLargeHeads) {
  EncoderAttentionShape s = Bert();
  s.head_dim = 256;
  EXPECT_EQ(SpecializeEncoderAttention(s, kHopper)->grid[1].per_block, 8);
  s.head_dim = 512;
  EXPECT_FALSE(SpecializeEncoderAttention(s, kHopper).has_value());
}

TEST(SpecializeEncoderAttention, KnowsWhatRowsAreAlignedTo) {
  EncoderAttentionShape s = Bert();
  s.head_dim = 6;
  s.k_stride = 18;
  s.causal = true;
  const std::string entry = SpecializeEncoderAttention(s, kHopper)->entry;
  EXPECT_NE(entry.find(", true, "), std::string::npos) << entry;
  EXPECT_NE(entry.find(", 4, 2, 4>"), std::string::npos) << entry;
}

}  // namespace
}  // namespace deepslice
