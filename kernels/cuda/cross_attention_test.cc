#include "kernels/cuda/cross_attention.h"

#include <optional>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

const GpuTarget kHopper = {"sm_90a", 9, 0, false, 132, 232448};
const GpuTarget kAmpere = {"compute_80", 8, 0, true, 128, 101376};

CrossAttentionShape T5() {
  CrossAttentionShape s;
  s.type = s.cache = DType::kBF16;
  s.heads = s.kv_heads = 12;
  s.head_dim = 64;
  s.q_stride = s.k_stride = s.y_stride = 768;
  s.v_stride = 800;
  s.block_tokens = s.max_sources = 2048;
  s.max_rows = 8;
  return s;
}

TEST(SpecializeCrossAttention, GivesABlockAHeadOfAToken) {
  const std::optional<KernelSpec> k = SpecializeCrossAttention(T5(), kHopper);
  ASSERT_TRUE(k.has_value());
  EXPECT_EQ(k->entry,
            "CrossAttention<bf16, bf16, 12, 1, 0, 64, 768, 768, 2048, "
            "0x3fb8aa3bu, 8>");
  EXPECT_EQ(k->grid[0].times, 12);
  EXPECT_EQ(k->grid[1].dim, CountDim::kTokens);
  EXPECT_EQ(k->grid[1].per_block, 1);
  EXPECT_TRUE(k->programmatic);
  EXPECT_FALSE(SpecializeCrossAttention(T5(), kAmpere)->programmatic);
}

TEST(SpecializeCrossAttention, RefusesHeadsWhoseSumsFillRegisters) {
  CrossAttentionShape s = T5();
  s.head_dim = 512;
  EXPECT_TRUE(SpecializeCrossAttention(s, kHopper).has_value());
  s.head_dim = 513;
  EXPECT_FALSE(SpecializeCrossAttention(s, kHopper).has_value());
}

TEST(SpecializeCrossAppend, RunsOverSourceTokens) {
  const KernelSpec k = SpecializeCrossAppend(T5(), kHopper);
  EXPECT_EQ(k.entry, "CrossAppend<bf16, bf16, 12, 64, 768, 800, 2048, 2048>");
  EXPECT_EQ(k.grid[0].dim, CountDim::kSourceTokens);
}

}  // namespace
}  // namespace deepslice
