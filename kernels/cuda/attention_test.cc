// Which attention kernel a shape gets, and the grid and memory that go with it.
#include "kernels/cuda/attention.h"

#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/attention_tuning.h"

namespace deepslice {
namespace {

GpuTarget H200() {
  GpuTarget t;
  t.name = "sm_90a";
  t.major = 9;
  t.num_sms = 132;
  t.shared_bytes = 232448;
  return t;
}

// 8B: q, k and v side by side in one row.
AttentionShape Fused(int64_t heads, int64_t kv_heads, int64_t dim) {
  AttentionShape s;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.group = heads / kv_heads;
  s.head_dim = s.rotary_dim = dim;
  s.scale = 0.125;
  s.q_stride = s.k_stride = s.v_stride = (heads + 2 * kv_heads) * dim;
  s.k_offset = heads * dim;
  s.v_offset = (heads + kv_heads) * dim;
  s.out_stride = heads * dim;
  s.max_context = 16384;
  return s;
}
AttentionShape RotatedQ(AttentionShape s) {
  s.q_stride = s.heads * s.head_dim;
  s.q_offset = 0;
  return s;
}

int64_t Parts(const KernelSpec& spec) { return spec.grid[2].times; }

TEST(DecodeAttention, NamesEveryNumberOfTheInstance) {
  AttentionShape s = Fused(6, 2, 64);
  s.head_offset = 1;
  s.group = 4;
  s.window = 100;
  s.scale = 1;
  s.style = RopeStyle::kInterleaved;
  s.rotary_dim = 48;
  const KernelSpec spec = SpecializeDecodeAttention(s, H200()).kernel;
  EXPECT_EQ(spec.source, "attention_decode.cuh");
  // 1069066811: the float log2(e); 1065353216: 1.
  EXPECT_EQ(spec.entry,
            "AttentionDecodeCluster<bf16, AttentionHeads<6, 2, 4, 1, 64>, "
            "AttentionKeys<64, 100, 1069066811u>, "
            "AttentionRotary<64, 48, 1, 1065353216u>, "
            "AttentionRows<640, 0, 640, 384, 640, 512, 384>, "
            "DecodePlan<4, 8, 8, 64, 64, 256, 512, 2, 0>>");
  EXPECT_TRUE(spec.programmatic);
  EXPECT_EQ(spec.block[0], 256u);
}

TEST(DecodeAttention, CutsSequencesSoThatTheGpuIsFull) {
  AttentionShape s = Fused(32, 8, 128);
  const DecodeAttention one = SpecializeDecodeAttention(s, H200());
  // Eight pairs of large blocks for each KV head: 128 of 132 SMs.
  EXPECT_EQ(one.kernel.block[0], 256u);
  EXPECT_EQ(Parts(one.kernel), 16);
  // Two halves of 32 keys of 128 elements for each of 8 warps.
  EXPECT_EQ(one.kernel.shared_bytes, 8 * 2 * 32 * 128 * 2u);
  EXPECT_EQ(one.kernel.grid[0].times, 8);
  EXPECT_EQ(one.kernel.grid[1].dim, CountDim::kTokens);
  // A word and half of 4 rows of 128 for each block of a cluster; scratch of
  // eight clusters.
  EXPECT_EQ(one.sync_words, 8 * 2);
  EXPECT_EQ(one.scratch_bytes, 8 * 2 * 8 * (4 * 128 / 2 + 4 * 4) * 4);
  // Pairs of blocks of 4 warps, two on an SM.
  s.tokens = 8;
  const DecodeAttention batch = SpecializeDecodeAttention(s, H200());
  EXPECT_EQ(batch.kernel.block[0], 128u);
  EXPECT_NE(batch.kernel.entry.find("DecodePlan<4, 4, 2, 4, 6, 128, 512, 0, 3>"),
            std::string::npos);
}

TEST(DecodeAttention, HasNoClustersBeforeHopper) {
  GpuTarget ampere = H200();
  ampere.major = 8;
  AttentionShape s = Fused(32, 8, 128);
  const DecodeAttention one = SpecializeDecodeAttention(s, ampere);
  EXPECT_NE(one.kernel.entry.find("AttentionDecode<"), std::string::npos);
  EXPECT_EQ(Parts(one.kernel), 33);  // 33 * 8 blocks on 132 SMs
  EXPECT_EQ(one.sync_words, 8);
  EXPECT_EQ(one.scratch_bytes, 8 * 33 * 4 * (128 + 4) * 4);
}

TEST(DecodeAttention, CutsOnlyLongSequencesOfLargeBatches) {
  AttentionShape s = Fused(32, 8, 128);
  s.tokens = 32;
  EXPECT_NE(SpecializeDecodeAttention(s, H200()).kernel.entry.find(
                "DecodePlan<4, 4, 1, 1, 2, 128, 512, 0, 3>"),
            std::string::npos);
  s.tokens = 64;  // long ones disappear among so many
  const DecodeAttention whole = SpecializeDecodeAttention(s, H200());
  EXPECT_EQ(Parts(whole.kernel), 1);
  EXPECT_EQ(whole.scratch_bytes, 0);
  EXPECT_EQ(whole.sync_words, 0);
}

TEST(DecodeAttention, HasNoMorePartsThanTheContextFills) {
  AttentionShape s = Fused(32, 8, 128);
  s.max_context = 300;
  const DecodeAttention two = SpecializeDecodeAttention(s, H200());
  EXPECT_EQ(Parts(two.kernel), 2);  // of 256 tokens, one cluster
  EXPECT_EQ(two.scratch_bytes, 0);
  s.max_context = 64;
  EXPECT_EQ(Parts(SpecializeDecodeAttention(s, H200()).kernel), 1);
}

TEST(DecodeAttention, FitsSharedMemory) {
  for (const int64_t dim : {32, 64, 96, 128, 160, 256}) {
    for (int64_t group = 1; group <= 40; ++group) {
      for (const int64_t tokens : {1, 8, 32, 64}) {
        AttentionShape s = Fused(2 * group, 2, dim);
        s.tokens = tokens;
        EXPECT_TRUE(DecodeFits(s, H200(), TuneDecode(s, H200())))
            << dim << " " << group << " " << tokens;
      }
    }
  }
}

TEST(DecodeAttention, SharesLargeGroupsAmongBlocks) {
  // 71 heads on one KV head: 5 blocks of up to 15 rows.
  const AttentionShape s = Fused(71, 1, 64);
  const DecodeAttention d = SpecializeDecodeAttention(s, H200());
  EXPECT_EQ(d.kernel.grid[0].times, 5);
  EXPECT_NE(d.kernel.entry.find("DecodePlan<15, "), std::string::npos);
  // Twice the head size, half the rows.
  const DecodeAttention large =
      SpecializeDecodeAttention(Fused(12, 1, 256), H200());
  EXPECT_EQ(large.kernel.grid[0].times, 2);
  EXPECT_NE(large.kernel.entry.find("DecodePlan<6, "), std::string::npos);
}

TEST(DecodeAttention, GivesOneKvHeadOnlyTheHeadsThatAreHere) {
  AttentionShape s = Fused(3, 1, 64);
  s.group = 8;
  s.head_offset = 4;  // half of the group lives on another rank
  const KernelSpec spec = SpecializeDecodeAttention(s, H200()).kernel;
  EXPECT_NE(spec.entry.find("AttentionHeads<3, 1, 3, 0, 64>"),
            std::string::npos);
}

TEST(DecodeAttention, BendsScoresOnlyWhereAsked) {
  AttentionShape s = Fused(6, 2, 64);
  const std::string plain = SpecializeDecodeAttention(s, H200()).kernel.entry;
  EXPECT_NE(plain.find("AttentionDecodeCluster<bf16, "), std::string::npos);
  EXPECT_NE(plain.find("AttentionKeys<64, 0, "), std::string::npos);
  s.scale = 1;
  s.softcap = 2;
  // 1056964608: 0.5, the scale over the cap; 1077455419: 2 log2(e).
  const KernelSpec capped = SpecializeDecodeAttention(s, H200()).kernel;
  EXPECT_NE(capped.entry.find("AttentionDecodeCluster<bf16, "),
            std::string::npos);
  EXPECT_NE(capped.entry.find("AttentionBentKeys<64, 0, 1056964608u, "
                              "1077455419u, -1, 0u, false>"),
            std::string::npos)
      << capped.entry;
  EXPECT_NE(capped.label.find(" softcap"), std::string::npos);
  s.softcap = 0;
  s.alibi = Alibi::kPlain;
  const KernelSpec sloped = SpecializeDecodeAttention(s, H200()).kernel;
  EXPECT_NE(sloped.entry.find("AttentionDecodeClusterSlopes<bf16, "),
            std::string::npos);
  EXPECT_NE(sloped.entry.find("AttentionBentKeys<64, 0, 1069066811u, 0u, 0, "
                              "1069066811u, false>"),
            std::string::npos)
      << sloped.entry;
  s.scale = 0.5;  // Falcon's is multiplied, too: log2(e) / 2
  s.alibi = Alibi::kScaledBf16;
  EXPECT_NE(SpecializeDecodeAttention(s, H200())
                .kernel.entry.find("1060678203u, 0u, 1, 1060678203u, false>"),
            std::string::npos);
  GpuTarget ampere = H200();
  ampere.major = 8;
  EXPECT_EQ(
      SpecializeDecodeAttention(s, ampere).kernel.entry.find(
          "AttentionDecodeSlopes<"),
      0u);
  // Float kernels bend precisely.
  s.type = s.cache = DType::kF32;
  const std::string simple = SpecializeDecodeAttention(s, H200()).kernel.entry;
  EXPECT_EQ(simple.find("AttentionSimpleDecodeSlopes<float, "), 0u);
  EXPECT_NE(simple.find(", true>"), std::string::npos);
}

TEST(DecodeAttention, BiasesByRelativePositionAreTheSimpleKernels) {
  AttentionShape s = Fused(6, 2, 64);
  s.scale = 1;
  s.relative = RelativeBiasShape{DType::kBF16, 8, 20};
  const KernelSpec decode = SpecializeDecodeAttention(s, H200()).kernel;
  EXPECT_EQ(decode.entry.find("AttentionSimpleDecodeRelative<bf16, bf16, "), 0u);
  EXPECT_NE(decode.entry.find("AttentionRelativeKeys<64, 0, 1069066811u, 0u, "
                              "RelativeBias<bf16, 8, false, 5, 6, 9, 14>>"),
            std::string::npos)
      << decode.entry;
  const KernelSpec tile = SpecializeTileAttention(RotatedQ(s), H200()).kernel;
  EXPECT_EQ(tile.entry.find("AttentionSimpleTileRelative<bf16, bf16, "), 0u);
  const AttentionShape plain = Fused(6, 2, 64);
  EXPECT_NE(SpecializeDecodeAttention(plain, H200()).kernel.source,
            decode.source);
}

TEST(Append, KnowsNoScores) {
  AttentionShape s = Fused(6, 2, 64);
  const std::string plain = SpecializeAppend(s, H200()).entry;
  s.softcap = 30;
  s.alibi = Alibi::kPlain;
  EXPECT_EQ(SpecializeAppend(s, H200()).entry, plain);
}

TEST(TileAttention, BendsScoresOnlyWhereAsked) {
  AttentionShape s = RotatedQ(Fused(6, 2, 64));
  const TileAttention plain = SpecializeTileAttention(s, H200());
  EXPECT_EQ(plain.kernel.entry.find("AttentionTile<"), 0u);
  s.softcap = 30;
  const TileAttention capped = SpecializeTileAttention(s, H200());
  EXPECT_EQ(capped.kernel.entry.find("AttentionTile<"), 0u);
  EXPECT_NE(capped.kernel.entry.find("AttentionBentKeys<"), std::string::npos);
  s.alibi = Alibi::kPlain;
  const TileAttention sloped = SpecializeTileAttention(s, H200());
  EXPECT_EQ(sloped.kernel.entry.find("AttentionTileSlopes<"), 0u);
  // The cut is the same, but registers hold a block less.
  EXPECT_EQ(sloped.kernel.shared_bytes, plain.kernel.shared_bytes);
  EXPECT_EQ(plain.kernel.grid[1].times, 3 * 132 / 2);
  EXPECT_EQ(sloped.kernel.grid[1].times, 2 * 132 / 2);
  EXPECT_EQ(AttentionTileTokens(s, H200()), 128 / 3);
  s.type = s.cache = DType::kF32;
  EXPECT_EQ(SpecializeTileAttention(s, H200()).kernel.entry.find(
                "AttentionSimpleTileSlopes<"),
            0u);
}

TEST(DecodeAttention, ForgetsAWindowThatHidesNothing) {
  AttentionShape s = Fused(6, 2, 64);
  const std::string none = SpecializeDecodeAttention(s, H200()).kernel.entry;
  s.window = s.max_context;
  EXPECT_EQ(SpecializeDecodeAttention(s, H200()).kernel.entry, none);
  s.window = s.max_context - 1;
  EXPECT_NE(SpecializeDecodeAttention(s, H200()).kernel.entry, none);
}

TEST(DecodeAttention, FallsBackForWhatTensorCoresDoNotTake) {
  const auto source = [](const AttentionShape& s) {
    return SpecializeDecodeAttention(s, H200()).kernel.source;
  };
  AttentionShape s = Fused(6, 2, 64);
  EXPECT_EQ(source(s), "attention_decode.cuh");
  s.type = s.cache = DType::kF16;
  EXPECT_EQ(source(s), "attention_decode.cuh");
  s.type = DType::kF32;
  EXPECT_EQ(source(s), "attention_simple.cuh");
  s.cache = DType::kF32;
  EXPECT_EQ(source(s), "attention_simple.cuh");
  EXPECT_EQ(source(Fused(6, 2, 10)), "attention_simple.cuh");
  EXPECT_EQ(source(Fused(6, 2, 48)), "attention_simple.cuh");
  EXPECT_EQ(source(Fused(6, 2, 288)), "attention_simple.cuh");
  s = Fused(6, 2, 64);
  s.block_tokens = 16;
  EXPECT_EQ(source(s), "attention_simple.cuh");
}

TEST(DecodeAttention, SimpleKernelHasABlockForEachMember) {
  const DecodeAttention d = SpecializeDecodeAttention(Fused(6, 2, 10), H200());
  EXPECT_EQ(d.kernel.grid[0].times, 3);
  EXPECT_EQ(d.kernel.grid[1].times, 2);
  EXPECT_EQ(d.kernel.grid[2].dim, CountDim::kTokens);
  EXPECT_EQ(d.scratch_bytes, 0);
}

TEST(Append, WritesRotatedRowsOfHeadsOnly) {
  AttentionShape s = Fused(6, 2, 10);
  s.out_stride = 999;  // of the attention's output, not of rotated q
  const KernelSpec spec = SpecializeAppend(s, H200());
  EXPECT_NE(spec.entry.find("AttentionRows<100, 0, 100, 60, 100, 80, 60>"),
            std::string::npos);
  // 2 groups of q and k heads, 2 heads of v.
  EXPECT_EQ(spec.grid[1].times, 4);
  EXPECT_EQ(spec.grid[0].per_block, 64);
  EXPECT_EQ(spec.grid[0].dim, CountDim::kTokens);
}

TEST(TileAttention, PacksTheHeadsOfAGroup) {
  const AttentionShape s = RotatedQ(Fused(32, 8, 128));
  EXPECT_EQ(AttentionTileTokens(s, H200()), 32);  // * 4 heads: 128 rows
  const TileAttention tile = SpecializeTileAttention(s, H200());
  const KernelSpec& spec = tile.kernel;
  EXPECT_EQ(spec.source, "attention_tile.cuh");
  EXPECT_EQ(spec.grid[0].times, 8);
  EXPECT_EQ(spec.grid[1].dim, CountDim::kTiles);
  // q 128 and k 64 rows of 136, v 128 rows of 72: three blocks fit an SM.
  EXPECT_EQ(spec.shared_bytes, 2u * ((128 + 64) * 136 + 128 * 72));
}

TEST(TileAttention, LaunchesAWaveOfBlocksForFewTiles) {
  AttentionShape s = RotatedQ(Fused(32, 8, 128));
  const TileAttention tile = SpecializeTileAttention(s, H200());
  // 2 blocks an SM, 8 KV heads.
  EXPECT_EQ(tile.kernel.grid[1].times, 33);
  EXPECT_EQ(tile.kernel.grid[1].per_block, 33);
  EXPECT_EQ(tile.sync_words, 8 * 33);
  EXPECT_EQ(tile.scratch_bytes, 8 * 33 * 128 * (128 + 4) * 4);
  EXPECT_NE(tile.kernel.entry.find(", 4, 2, 64, 33>"), std::string::npos);
  // One KV head, and a bound for what searches among them.
  s = RotatedQ(Fused(6, 1, 64));
  EXPECT_EQ(SpecializeTileAttention(s, H200()).kernel.grid[1].times, 256);
  // More heads than a wave has blocks: nothing is ever cut.
  s = RotatedQ(Fused(300, 300, 32));
  const TileAttention whole = SpecializeTileAttention(s, H200());
  EXPECT_EQ(whole.kernel.grid[1].times, 1);
  EXPECT_EQ(whole.scratch_bytes, 0);
  EXPECT_EQ(whole.sync_words, 0);
  // The simple kernel takes a tile a block.
  s = RotatedQ(Fused(6, 2, 10));
  const TileAttention simple = SpecializeTileAttention(s, H200());
  EXPECT_EQ(simple.kernel.grid[1].per_block, 1);
  EXPECT_EQ(simple.scratch_bytes, 0);
}

TEST(TileAttention, TileTokensHoldForOddGroups) {
  EXPECT_EQ(AttentionTileTokens(RotatedQ(Fused(21, 3, 64)), H200()), 128 / 7);
  EXPECT_EQ(AttentionTileTokens(RotatedQ(Fused(71, 1, 64)), H200()), 128 / 15);
  EXPECT_EQ(AttentionTileTokens(RotatedQ(Fused(5, 5, 64)), H200()), 128);
  EXPECT_EQ(AttentionTileTokens(RotatedQ(Fused(4, 2, 256)), H200()), 32);
}

TEST(TileAttention, FallsBackForWhatTensorCoresDoNotTake) {
  const auto source = [](const AttentionShape& s) {
    return SpecializeTileAttention(s, H200()).kernel.source;
  };
  AttentionShape s = RotatedQ(Fused(6, 2, 80));
  EXPECT_EQ(source(s), "attention_tile.cuh");
  s.block_tokens = 24;
  EXPECT_EQ(source(s), "attention_tile.cuh");
  s.block_tokens = 20;
  EXPECT_EQ(source(s), "attention_simple.cuh");
  s = RotatedQ(Fused(6, 2, 10));
  EXPECT_EQ(source(s), "attention_simple.cuh");
  EXPECT_EQ(AttentionTileTokens(s, H200()), 4);
  s = RotatedQ(Fused(6, 2, 512));
  EXPECT_EQ(source(s), "attention_simple.cuh");
  EXPECT_EQ(AttentionTileTokens(s, H200()), 1);
  s = RotatedQ(Fused(6, 2, 64));
  s.type = s.cache = DType::kF32;
  EXPECT_EQ(source(s), "attention_simple.cuh");
  EXPECT_EQ(SpecializeTileAttention(s, H200()).kernel.grid[0].times, 6);
  // A card whose blocks have too little shared memory.
  GpuTarget small = H200();
  small.shared_bytes = 48 << 10;
  s = RotatedQ(Fused(32, 8, 128));
  EXPECT_EQ(SpecializeTileAttention(s, small).kernel.source,
            "attention_simple.cuh");
  EXPECT_EQ(AttentionTileTokens(s, small), 4);
}

TEST(TileAttention, IsProgrammaticFromHopperOn) {
  GpuTarget ampere = H200();
  ampere.major = 8;
  const AttentionShape s = RotatedQ(Fused(6, 2, 64));
  EXPECT_TRUE(SpecializeTileAttention(s, H200()).kernel.programmatic);
  EXPECT_FALSE(SpecializeTileAttention(s, ampere).kernel.programmatic);
  EXPECT_FALSE(SpecializeAppend(s, ampere).programmatic);
  EXPECT_FALSE(SpecializeDecodeAttention(s, ampere).kernel.programmatic);
}

}  // namespace
}  // namespace deepslice
