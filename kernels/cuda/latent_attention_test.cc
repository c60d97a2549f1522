#include "kernels/cuda/latent_attention.h"

#include <string>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

const GpuTarget kHopper = {"sm_90a", 9, 0, false, 132, 232448};

LatentAttentionShape DeepSeek(int64_t heads, int64_t tokens) {
  LatentAttentionShape s;
  s.heads = heads;
  s.head_dim = 576;
  s.value_dim = s.of_a = 512;
  s.of_b = 64;
  s.scale = 1;
  s.q_stride = heads * 576;
  s.a_stride = 512;
  s.b_stride = 64;
  s.key_stride = 576;
  s.out_stride = heads * 512;
  s.tokens = tokens;
  return s;
}

TEST(LatentAttention, NamesEveryNumberOfTheInstance) {
  const auto l = SpecializeLatentAttention(DeepSeek(16, 1), kHopper);
  ASSERT_TRUE(l.has_value());
  EXPECT_EQ(l->append.entry,
            "LatentAppend<bf16, bf16, 512, 64, 64, 512, 64, 576, 1, 8, 16, 16, "
            "16, 16, 96>");
  // 0x3fb8aa3b: log2(e). Rows of 73 pieces of 16 bytes; 16 parts of 128 keys
  // or more.
  EXPECT_EQ(l->attend.entry,
            "LatentAttention<bf16, bf16, LatentShape<16, 576, 512, 64, "
            "0x3fb8aa3bu, 9216, 8192, 16, 584, 16, 128>, 8>");
  EXPECT_EQ(l->attend.shared_bytes,
            16u * 584 * 4 + 32 * 584 * 2 + 32 * 16 * 4 + 3 * 16 * 4);
  EXPECT_EQ(l->attend.grid[2].times, 16);
  EXPECT_EQ(l->scratch_bytes, 16 * 16 * (512 + 2) * 4);
  EXPECT_EQ(l->sync_words, 1);
  EXPECT_TRUE(l->attend.programmatic);
}

TEST(LatentAttention, CutsOnlyTheKeysOfFewTokens) {
  // 8 groups of heads and 32 tokens: two blocks for each multiprocessor.
  const auto many = SpecializeLatentAttention(DeepSeek(128, 32), kHopper);
  EXPECT_EQ(many->attend.grid[0].times, 8);
  EXPECT_EQ(many->attend.grid[2].times, 1);
  EXPECT_EQ(many->scratch_bytes, 0);
  EXPECT_EQ(many->sync_words, 0);
  const auto some = SpecializeLatentAttention(DeepSeek(128, 8), kHopper);
  EXPECT_EQ(some->attend.grid[2].times, 4);
  EXPECT_EQ(some->sync_words, 8 * 8);
  // A short context has no parts.
  LatentAttentionShape s = DeepSeek(16, 1);
  s.max_context = 200;
  EXPECT_EQ(SpecializeLatentAttention(s, kHopper)->attend.grid[2].times, 1);
}

TEST(LatentAttention, TakesFewerHeadsWhereSharedMemoryIsShort) {
  LatentAttentionShape s = DeepSeek(16, 4);
  s.type = s.cache = DType::kF32;
  GpuTarget small = kHopper;
  small.shared_bytes = 101376;
  EXPECT_EQ(SpecializeLatentAttention(s, kHopper)->attend.grid[0].times, 1);
  // 32 rows of 580 floats and 8 of queries.
  EXPECT_EQ(SpecializeLatentAttention(s, small)->attend.grid[0].times, 2);
  s.head_dim = 2048;
  s.of_b = 2048 - 512;
  EXPECT_FALSE(SpecializeLatentAttention(s, kHopper).has_value());
}

TEST(LatentAttention, AKeyMayComeWhole) {
  LatentAttentionShape s = DeepSeek(3, 1);
  s.of_a = 576;
  s.of_b = s.b_stride = 0;
  s.a_stride = 576;
  const auto l = SpecializeLatentAttention(s, kHopper);
  EXPECT_EQ(l->append.entry,
            "LatentAppend<bf16, bf16, 576, 0, 64, 576, 0, 576, 1, 8, 16, 16, "
            "16, 16, 96>");
  // Few heads: 4 rows of them.
  EXPECT_NE(l->attend.entry.find("1728, 1536, 4, 584, "), std::string::npos)
      << l->attend.entry;
}

}  // namespace
}  // namespace deepslice
