#include "compiler/gpu/lower.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/gpu/gpu_plan.h"
#include "compiler/test_graphs.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Kind = LoweredStep::Kind;

GpuTarget Hopper() { return ParseTarget("sm_90a")->gpu; }

StepCeilings Ceilings(int64_t max_batch = 3) {
  StepCeilings c;
  c.max_seq_len = 100;
  c.max_batch = max_batch;
  c.max_step_tokens = std::max<int64_t>(max_batch, 50);
  c.kv_block = 16;
  return c;
}

const LoweredProgram& Find(const GpuPrograms& all, absl::string_view name) {
  for (const LoweredProgram& p : all.programs) {
    if (p.name == name) return p;
  }
  ADD_FAILURE() << "no program " << name;
  return all.programs[0];
}

// "gemm", the collective's kind, or the kernel's source file.
std::vector<std::string> WhatRuns(const GpuPrograms& all,
                                  const LoweredProgram& program) {
  std::vector<std::string> out;
  for (const LoweredStep& s : program.steps) {
    if (s.kind == Kind::kGemm) {
      out.push_back("gemm");
    } else if (s.kind == Kind::kCollective) {
      constexpr const char* kNames[] = {"all_reduce", "all_gather",
                                        "broadcast"};
      out.push_back(kNames[static_cast<int>(s.collective)]);
    } else {
      out.push_back(all.kernels[s.kernel].source);
    }
  }
  return out;
}

std::vector<std::string> Names(const LoweredProgram& program) {
  std::vector<std::string> out;
  for (const LoweredStep& s : program.steps) out.push_back(s.name);
  return out;
}

int64_t Count(const std::vector<std::string>& list, absl::string_view part) {
  return std::count_if(list.begin(), list.end(), [&](const std::string& s) {
    return absl::StrContains(s, part);
  });
}

const LoweredBuffer& Buffer(const LoweredProgram& p, absl::string_view name) {
  for (const LoweredBuffer& b : p.buffers) {
    if (b.name == name) return b;
  }
  ADD_FAILURE() << "no buffer " << name;
  return p.buffers[0];
}

// Two buffers in one slot are never needed at the same time; the only step that
// two share is one whose result takes an operand's place element by element.
void ExpectDistinctWhileAlive(const LoweredProgram& p) {
  for (size_t a = 0; a < p.buffers.size(); ++a) {
    for (size_t b = 0; b < p.buffers.size(); ++b) {
      const LoweredBuffer &x = p.buffers[a], &y = p.buffers[b];
      if (a == b || x.slot < 0 || x.slot != y.slot) continue;
      if (x.last_step < y.first_step || y.last_step < x.first_step) continue;
      const LoweredBuffer& first = x.first_step < y.first_step ? x : y;
      const LoweredBuffer& second = &first == &x ? y : x;
      EXPECT_EQ(first.last_step, second.first_step)
          << p.name << ": " << first.name << " and " << second.name;
      EXPECT_EQ(first.dtype, second.dtype);
      EXPECT_EQ(first.extents, second.extents)
          << p.name << ": " << first.name << " and " << second.name;
    }
  }
}

void ExpectSyncApart(const LoweredProgram& p) {
  std::set<int64_t> words;
  for (const LoweredStep& s : p.steps) {
    for (const LoweredOperand& o : s.operands) {
      if (o.kind != LoweredOperand::Kind::kSync) continue;
      EXPECT_GT(s.sync_words, 0);
      for (int64_t w = o.index; w < o.index + s.sync_words; ++w) {
        EXPECT_TRUE(words.insert(w).second) << p.name << ": word " << w;
        EXPECT_LT(w, p.sync_words);
      }
    }
  }
}

TEST(LowerForGpu, BucketsArePowersOfTwoAndTheMaximum) {
  EXPECT_EQ(GpuBuckets(1), std::vector<int>({1}));
  EXPECT_EQ(GpuBuckets(8), std::vector<int>({1, 2, 4, 8}));
  EXPECT_EQ(GpuBuckets(6), std::vector<int>({1, 2, 4, 6}));
}

TEST(LowerForGpu, ADecodeStepFoldsNormsGathersAndActivations) {
  const std::vector<Graph> ranks = GoldenGraphs("llama-gqa-tied", 1, "bf16");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], Ceilings(), {}, Hopper()));
  const LoweredProgram& p = Find(all, "decode_2");
  std::vector<std::string> names = {"embed"};
  for (const char* layer : {"layers.0", "layers.1", "layers.2"}) {
    for (const char* step : {"qkv", "attn", "attn_residual", "act", "out"}) {
      names.push_back(absl::StrCat(layer, ".", step));
    }
  }
  names.push_back("logits");
  names.push_back("sampled");
  EXPECT_EQ(Names(p), names);
  const std::vector<std::string> runs = WhatRuns(all, p);
  EXPECT_EQ(Count(runs, "norm"), 0);
  EXPECT_EQ(Count(runs, "gemm"), 0);
  EXPECT_EQ(Count(runs, "elementwise"), 0);
  EXPECT_EQ(Count(runs, "linear"), 3 * 4 + 1);
  EXPECT_EQ(p.bucket, 2);
  EXPECT_EQ(p.dims[0].maximum, 2);
  EXPECT_EQ(p.dims[2].maximum, 3);
  EXPECT_EQ(Buffer(p, "layers.0.qkv").dtype, DType::kBF16);
  EXPECT_EQ(Buffer(p, "logits").dtype, DType::kF32);
}

TEST(LowerForGpu, TheGeneralStepLeavesProductsToTheLibrary) {
  const std::vector<Graph> ranks = GoldenGraphs("gpt2", 1, "fp16");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], Ceilings(), {}, Hopper()));
  const LoweredProgram& p = Find(all, "step");
  const std::vector<std::string> runs = WhatRuns(all, p);
  EXPECT_EQ(Count(runs, "gemm"), 3 * 4 + 1);
  EXPECT_EQ(Count(runs, "norm"), 3 * 2 + 1);
  // Bias; bias and residual; bias and activation; bias and residual.
  EXPECT_EQ(Count(runs, "elementwise"), 3 * 4 + 1);
  EXPECT_EQ(Count(runs, "linear"), 0);
  EXPECT_GT(p.tile_tokens, 0);
  EXPECT_EQ(p.dims[4].name, "Q");
  EXPECT_EQ(p.dims[4].maximum, (50 + p.tile_tokens - 1) / p.tile_tokens + 3);
  // What follows a product takes its place.
  EXPECT_EQ(Buffer(p, "layers.1.up").slot, Buffer(p, "layers.1.act").slot);
}

TEST(LowerForGpu, OnlyAStepAfterALaunchStartsEarly) {
  const std::vector<Graph> ranks = GoldenGraphs("llama-gqa-tied", 2, "bf16");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], Ceilings(), {0, 2}, Hopper()));
  bool some = false;
  for (const LoweredProgram& p : all.programs) {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const LoweredStep& s = p.steps[i];
      if (!s.programmatic) continue;
      some = true;
      ASSERT_GT(i, 0u);
      EXPECT_EQ(p.steps[i - 1].kind, Kind::kLaunch) << s.name;
    }
  }
  EXPECT_TRUE(some);
}

TEST(LowerForGpu, BucketsBeyondTheLinearKernelsUseProducts) {
  const std::vector<Graph> ranks = GoldenGraphs("mistral-window", 1, "bf16");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], Ceilings(40), {}, Hopper()));
  ASSERT_EQ(all.programs.size(), 8u);
  EXPECT_EQ(Count(WhatRuns(all, Find(all, "decode_32")), "gemm"), 0);
  const LoweredProgram& p = Find(all, "decode_40");
  EXPECT_GT(Count(WhatRuns(all, p), "gemm"), 0);
  EXPECT_EQ(Count(Names(p), ".rotated"), 0);  // still one attention step
  EXPECT_EQ(p.tile_tokens, 0);
}

TEST(LowerForGpu, ANormMayComeBeforeOrAfterTheGather) {
  for (const char* body : {R"(%g = gather_rows(%h, %rows)
                              %n = rms_norm(%g, @s) {eps=1e-5})",
                           R"(%g = rms_norm(%h, @s) {eps=1e-5}
                              %n = gather_rows(%g, %rows))"}) {
    DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(absl::StrCat(
                                               R"(graph @m {
                 param %ids : i32[T]
                 param %rows : i32[R]
                 weight @table : f32[131, 20] role(embed)
                 weight @s : f32[20] role(norm)
                 weight @w : f32[131, 20] role(head)
                 %h = embed(%ids, @table) {begin=0}
            )",
                                               body, R"(
                 %logits = linear(%n, @w)
                 return %logits
               })")));
    DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                            LowerForGpu(g, Ceilings(), {}, Hopper()));
    EXPECT_EQ(Names(Find(all, "decode_1")),
              std::vector<std::string>({"h", "logits", "sampled"}));
    EXPECT_EQ(Names(Find(all, "step")),
              std::vector<std::string>({"h", "n", "logits", "sampled"}));
    EXPECT_EQ(Buffer(Find(all, "step"), "n").extents[0].dim, 1);  // R
  }
}

TEST(LowerForGpu, ANormWithAnotherReaderIsAStep) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(R"(
    graph @m {
      param %ids : i32[T]
      param %rows : i32[R]
      weight @table : f32[131, 20] role(embed)
      weight @s : f32[20] role(norm)
      weight @w : f32[20, 20] role(mlp_out)
      weight @head : f32[131, 20] role(head)
      %h = embed(%ids, @table) {begin=0}
      %n = rms_norm(%h, @s) {eps=1e-5}
      %y = linear(%n, @w, residual=%n)
      %g = gather_rows(%y, %rows)
      %logits = linear(%g, @head)
      return %logits
    })"));
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(g, Ceilings(), {}, Hopper()));
  EXPECT_EQ(Names(Find(all, "decode_1")),
            std::vector<std::string>({"h", "n", "y", "logits", "sampled"}));
}

TEST(LowerForGpu, RanksGatherPaddedPartsAndGetRankZerosIds) {
  const std::vector<Graph> ranks = TinyLlamaGraphs(3, "fp32");
  GpuPlans plans;
  GpuTargetPlan target;
  for (int r = 0; r < 3; ++r) {
    DS_ASSERT_OK_AND_ASSIGN(
        GpuPrograms all, LowerForGpu(ranks[r], Ceilings(), {r, 3}, Hopper()));
    const LoweredProgram& p = Find(all, "decode_3");
    // 131 rows over 3 ranks: 43, 44 and 44.
    EXPECT_EQ(Buffer(p, "logits.partial").extents,
              std::vector<LoweredExtent>({{3, -1}, {44, -1}}));
    EXPECT_EQ(Buffer(p, "logits.gathered").extents,
              std::vector<LoweredExtent>({{3, -1}, {132, -1}}));
    EXPECT_EQ(Buffer(p, "logits").extents,
              std::vector<LoweredExtent>({{0, 1}, {131, -1}}));
    const std::vector<std::string> runs = WhatRuns(all, p);
    EXPECT_EQ(runs.back(), "broadcast");
    EXPECT_EQ(Count(runs, "sample"), r == 0 ? 1 : 0);
    target.ranks.push_back(std::move(all));
  }
  plans.targets.push_back(std::move(target));
  DS_ASSERT_OK(CheckGpuCollectives(plans));
  plans.targets[0].ranks[1].programs[0].steps.pop_back();
  DS_EXPECT_ERROR(CheckGpuCollectives(plans), kInternal,
                  "program step: collective 6 differs: rank 0 has broadcast "
                  "i32[R] of 1 columns %sampled, rank 1 has none");
}

TEST(LowerForGpu, ARankWithoutAShareOfTheMlpAddsZeros) {
  // 20 columns in grains of 16: the first of three ranks has none.
  const std::vector<Graph> ranks = TinyLlamaGraphs(3, "bf16");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], Ceilings(), {0, 3}, Hopper()));
  for (const LoweredProgram& p : all.programs) {
    int zeros = 0;
    for (const LoweredStep& s : p.steps) {
      EXPECT_FALSE(absl::StrContains(s.name, ".act")) << s.name;
      if (s.name != "layers.1.mlp_out.partial") continue;
      ++zeros;
      EXPECT_EQ(all.kernels[s.kernel].label, "embed 0x12");
    }
    EXPECT_EQ(zeros, 1) << p.name;
    ExpectDistinctWhileAlive(p);
  }
}

TEST(LowerForGpu, AddsTakeFactorsInAndLogitsStayFloat) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(R"(
    graph @m {
      param %ids : i32[T]
      param %rows : i32[R]
      weight @table : f32[131, 20] role(embed)
      weight @w : f32[20, 20] role(mlp_out)
      weight @head : f32[131, 20] role(head)
      %e = embed(%ids, @table) {begin=0}
      %h = scale(%e) {factor=4.5}
      %p = linear(%h, @w)
      %f = scale(%p) {factor=0.25}
      %y = add(%h, %f)
      %g = gather_rows(%y, %rows)
      %u = linear(%g, @head)
      %v = scale(%u) {factor=0.5}
      %logits = softcap(%v) {cap=30}
      return %logits
    })"));
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(g, Ceilings(), {}, Hopper()));
  const LoweredProgram& p = Find(all, "decode_1");
  EXPECT_EQ(Names(p), std::vector<std::string>({"e", "h", "p", "y", "u", "v",
                                                "logits", "sampled"}));
  const std::vector<std::string> runs = WhatRuns(all, p);
  EXPECT_EQ(runs[3], "scale.cuh");
  EXPECT_EQ(all.kernels[p.steps[3].kernel].label, "scale 20 add");
  EXPECT_EQ(all.kernels[p.steps[6].kernel].label, "softcap 131");
  for (const char* name : {"u", "v", "logits"}) {
    EXPECT_EQ(Buffer(p, name).dtype, DType::kF32);
  }
  // What each replaces, nobody reads any more.
  EXPECT_EQ(Buffer(p, "u").slot, Buffer(p, "logits").slot);
}

TEST(LowerForGpu, SumsOfSquaresAreFloatInEveryPlan) {
  const std::vector<Graph> ranks = GoldenGraphs("olmo2", 2, "fp16");
  for (int r = 0; r < 2; ++r) {
    DS_ASSERT_OK_AND_ASSIGN(
        const GpuPrograms all,
        LowerForGpu(ranks[r], Ceilings(), {r, 2}, Hopper()));
    for (const LoweredProgram& p : all.programs) {
      const std::vector<std::string> lines = CollectiveLines(p);
      int sums = 0;
      for (const std::string& line : lines) {
        if (!absl::StrContains(line, "squares")) continue;
        EXPECT_EQ(line.find("all_reduce f32[T, 1] of 1 columns"), 0u) << line;
        ++sums;
      }
      EXPECT_GT(sums, 0);
      EXPECT_EQ(Count(WhatRuns(all, p), "norm_over.cuh"), 2 * sums);
    }
  }
}

TEST(LowerForGpu, SoftcapsAndSlopesReachEveryAttention) {
  for (const auto& [model, label, operands] :
       {std::tuple<const char*, const char*, int>{"gemma2", " softcap", 0},
        {"bloom", " alibi", 1},
        {"falcon-rw", " alibi", 1}}) {
    const std::vector<Graph> ranks = GoldenGraphs(model, 1, "bf16");
    DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                            LowerForGpu(ranks[0], Ceilings(), {}, Hopper()));
    for (const LoweredProgram& p : all.programs) {
      int attentions = 0;
      for (const LoweredStep& s : p.steps) {
        if (s.kind != Kind::kLaunch) continue;
        const KernelSpec& k = all.kernels[s.kernel];
        if (!absl::StartsWith(k.source, "attention_") ||
            k.source == "attention_append.cuh") {
          continue;
        }
        ++attentions;
        EXPECT_TRUE(absl::StrContains(k.label, label)) << k.label;
        EXPECT_EQ(s.operands.size(), (p.bucket > 0 ? 10u : 6u) + operands);
        if (operands == 0) continue;
        EXPECT_EQ(s.operands.back().kind, LoweredOperand::Kind::kWeight);
        EXPECT_EQ(ranks[0].weights()[s.operands.back().index]->name,
                  "alibi_slopes");
      }
      EXPECT_GT(attentions, 0) << model << " " << p.name;
    }
  }
}

TEST(LowerForGpu, RotationByLengthReadsTheHorizons) {
  const std::tuple<const char*, const char*, const char*, size_t> kCases[] = {
      {"phi3-longrope", "horizons", "RopeOfLength<", 6},
      {"llama-dynamic", "prompts", "RopeDynamic<", 5}};
  for (const auto& [model, input, entry, operands] : kCases) {
    const std::vector<Graph> ranks = GoldenGraphs(model, 1, "bf16");
    DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                            LowerForGpu(ranks[0], Ceilings(), {}, Hopper()));
    for (const LoweredProgram& p : all.programs) {
      EXPECT_EQ(Buffer(p, input).extents,
                std::vector<LoweredExtent>({{0, 2}}));
      EXPECT_EQ(p.dims[2].name, "S");
      int turns = 0;
      for (const LoweredStep& s : p.steps) {
        if (s.kind == Kind::kLaunch &&
            absl::StartsWith(all.kernels[s.kernel].entry, entry)) {
          EXPECT_EQ(s.operands.size(), operands);
          ++turns;
        }
      }
      EXPECT_GT(turns, 0) << model;
    }
  }
}

TEST(LowerForGpu, ALatentKeyIsPutTogetherWhereItIsAppended) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(R"(
    graph @m {
      param %ids : i32[T]
      param %positions : i32[T]
      param %slots : i32[T]
      param %blocks : i32[S, B]
      param %rows : i32[R]
      weight @table : f32[131, 24] role(embed)
      weight @up : f32[12, 16] role(attn_up)
      weight @down : f32[6, 16] role(attn_up)
      weight @wide : f32[24, 6] role(attn_out)
      weight @head : f32[131, 24] role(head)
      weight @latent : f32[16, 24] role(attn_down)
      weight @rope : f32[4, 24] role(attn_down)
      weight @nope : f32[12, 24] role(attn_q)
      weight @turn : f32[12, 24] role(attn_q)
      state @kv : latent(kv_heads=1, head_dim=20, encoding=f32)
      %h = embed(%ids, @table) {begin=0}
      %c = linear(%h, @latent)
      %r = linear(%h, @rope)
      %n = linear(%h, @nope)
      %t = linear(%h, @turn)
      %ql = head_linear(%n, @up) {heads=3, transposed=1}
      %q = concat_heads(%ql, %t) {heads=3}
      %k = concat_heads(%c, %r) {heads=1}
      %a = latent_attention(%q, %k, %positions, %slots, %blocks) {heads=3, head_dim=20, value_dim=16, scale=0.5} state(@kv)
      %o = head_linear(%a, @down) {heads=3}
      %y = linear(%o, @wide)
      %g = gather_rows(%y, %rows)
      %logits = linear(%g, @head)
      return %logits
    })"));
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(g, Ceilings(), {}, Hopper()));
  for (const LoweredProgram& p : all.programs) {
    const std::vector<std::string> names = Names(p), runs = WhatRuns(all, p);
    const size_t key =
        std::find(names.begin(), names.end(), "k") - names.begin();
    ASSERT_LT(key + 1, names.size());
    EXPECT_EQ(all.kernels[p.steps[key].kernel].label, "latent_append 20");
    EXPECT_EQ(names[key + 1], "a");
    EXPECT_EQ(runs[key + 1], "latent_attention.cuh");
    EXPECT_EQ(Count(runs, "concat_heads.cuh"), 1);  // of the queries
    EXPECT_EQ(Count(runs, "head_linear.cuh"), 2);
    EXPECT_EQ(p.tile_tokens, 0);
    ExpectDistinctWhileAlive(p);
    ExpectSyncApart(p);
  }
}

TEST(LowerForGpu, EncodersHaveOneProgramThatReturnsWhatTheyPublish) {
  const std::vector<Graph> ranks = GoldenGraphs("bert-relu", 2, "bf16");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], Ceilings(), {0, 2}, Hopper()));
  ASSERT_EQ(all.programs.size(), 1u);
  const LoweredProgram& p = all.programs[0];
  EXPECT_TRUE(p.encodes);
  EXPECT_EQ(p.name, "encode");
  EXPECT_EQ(p.tile_tokens, 0);
  ASSERT_EQ(p.outputs.size(), ranks[0].returns().size());
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    EXPECT_EQ(p.buffers[p.outputs[i]].name, ranks[0].returns()[i]->name);
    EXPECT_EQ(p.buffers[p.outputs[i]].dtype, DType::kF32);
  }
  const std::vector<std::string> runs = WhatRuns(all, p);
  EXPECT_EQ(Count(runs, "sample.cuh") + Count(runs, "broadcast"), 0);
  EXPECT_GT(Count(runs, "encoder_attention.cuh"), 0);
  EXPECT_EQ(Buffer(p, "types").extents, std::vector<LoweredExtent>({{0, 0}}));
  ExpectDistinctWhileAlive(p);
}

StepCeilings WithSources() {
  StepCeilings c = Ceilings();
  c.max_source_tokens = 40;
  return c;
}

TEST(LowerForGpu, AnEncoderBesideADecoderRunsInStepsAlone) {
  const std::vector<Graph> ranks = GoldenGraphs("t5", 2, "bf16");
  DS_ASSERT_OK_AND_ASSIGN(
      const GpuPrograms all,
      LowerForGpu(ranks[1], WithSources(), {1, 2}, Hopper()));
  ASSERT_EQ(all.programs.size(), 4u);
  const int64_t layers = std::count_if(
      ranks[1].nodes().begin(), ranks[1].nodes().end(),
      [](const auto& n) { return n->op == OpKind::kCrossAttention; });
  ASSERT_GT(layers, 0);
  for (const LoweredProgram& p : all.programs) {
    const bool whole = p.bucket == 0;
    const std::vector<std::string> runs = WhatRuns(all, p);
    EXPECT_EQ(Count(runs, "cross_attention.cuh"), whole ? 2 * layers : layers);
    EXPECT_EQ(Count(runs, "encoder_attention.cuh") > 0, whole);
    EXPECT_EQ(Count(runs, "attention_simple.cuh"), layers);
    // All read which source is whose; the encoder's inputs are the step's.
    std::set<std::string> inputs;
    for (const int b : p.inputs) inputs.insert(p.buffers[b].name);
    EXPECT_EQ(inputs.count("sources"), 1u);
    for (const char* name :
         {"source_ids", "source_positions", "source_slots"}) {
      EXPECT_EQ(inputs.count(name) == 1, whole) << p.name << " " << name;
    }
    const bool counts = std::any_of(
        p.dims.begin(), p.dims.end(),
        [](const ScheduledDim& d) { return d.name == "E" && d.maximum == 40; });
    EXPECT_EQ(counts, whole);
    ExpectDistinctWhileAlive(p);
    ExpectSyncApart(p);
  }
}

TEST(LowerForGpu, LaunchesOverSourcesAreNoPartOfAChain) {
  // A step without sources lacks them, so what follows waits by itself.
  const std::vector<Graph> ranks = GoldenGraphs("t5", 1, "fp32");
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[0], WithSources(), {}, Hopper()));
  const LoweredProgram& p = Find(all, "step");
  int source_dim = -1;
  for (size_t d = 0; d < p.dims.size(); ++d) {
    if (p.dims[d].name == "E") source_dim = static_cast<int>(d);
  }
  ASSERT_GE(source_dim, 0);
  const auto over_sources = [&](const LoweredStep& s) {
    return s.kind == Kind::kLaunch &&
           std::any_of(s.grid.begin(), s.grid.end(),
                       [&](const auto& g) { return g.dim == source_dim; });
  };
  int changes = 0, appended = 0;
  for (size_t i = 1; i < p.steps.size(); ++i) {
    appended += absl::StrContains(p.steps[i].name, ".cross.appended");
    if (over_sources(p.steps[i]) == over_sources(p.steps[i - 1])) continue;
    ++changes;
    EXPECT_FALSE(p.steps[i].programmatic) << p.steps[i].name;
  }
  EXPECT_GT(changes, 2);
  EXPECT_GT(appended, 0);  // keys and values, into the state
}

TEST(LowerForGpu, ImagesHaveRowsOfTheirOwn) {
  const std::vector<Graph> ranks = GoldenGraphs("clip", 2, "bf16");
  StepCeilings ceilings = Ceilings();
  ceilings.max_images = 4;
  ceilings.image_tokens = 10;
  DS_ASSERT_OK_AND_ASSIGN(const GpuPrograms all,
                          LowerForGpu(ranks[1], ceilings, {1, 2}, Hopper()));
  ASSERT_EQ(all.programs.size(), 1u);
  const LoweredProgram& p = all.programs[0];
  EXPECT_EQ(p.dims[4].name, "P");
  EXPECT_EQ(p.dims[4].maximum, 40);
  EXPECT_EQ(p.dims[5].name, "I");
  ASSERT_EQ(p.outputs.size(), 2u);
  EXPECT_EQ(p.buffers[p.outputs[1]].extents[0].dim, 5);
  EXPECT_EQ(Buffer(p, "pixels").dtype, DType::kF32);
  EXPECT_EQ(Buffer(p, "pixels.rounded").dtype, DType::kBF16);
  // A step without texts begins at the images.
  const std::vector<std::string> names = Names(p);
  const size_t first =
      std::find(names.begin(), names.end(), "vision.class") - names.begin();
  ASSERT_LT(first, names.size());
  EXPECT_FALSE(p.steps[first].programmatic);
  ExpectDistinctWhileAlive(p);
}

TEST(LowerForGpu, RefusesQuantisedWeights) {
  const std::vector<Graph> ranks = GoldenGraphs("qwen2", 1, "int8");
  DS_EXPECT_ERROR(LowerForGpu(ranks[0], Ceilings(), {}, Hopper()),
                  kUnimplemented, "encoding i8_row: GPU targets take f32");
}

TEST(LowerForGpu, RefusesGraphsThatReturnOtherThanLogits) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(R"(
    graph @m {
      param %ids : i32[T]
      weight @table : f32[131, 20] role(embed)
      %h = embed(%ids, @table) {begin=0}
      return %h
    })"));
  DS_EXPECT_ERROR(LowerForGpu(g, Ceilings(), {}, Hopper()), kUnimplemented,
                  "target sm_90a: %h: f32[T, 20]; GPU programs return logits");
}

TEST(LowerForGpu, RefusesStepsThatNoGridHolds) {
  const std::vector<Graph> ranks = GoldenGraphs("qwen2", 1, "bf16");
  StepCeilings c = Ceilings();
  c.max_step_tokens = 65536;
  DS_EXPECT_ERROR(LowerForGpu(ranks[0], c, {}, Hopper()), kFailedPrecondition,
                  "--max-step-tokens 65536: GPU targets take up to 65535");
}

struct ModelCase {
  const char* model;
  int tp;
  const char* dtype;
};

class LowerModel : public testing::TestWithParam<ModelCase> {};

TEST_P(LowerModel, SlotsAndSyncWordsAreSharedByNobody) {
  const ModelCase& c = GetParam();
  const std::vector<Graph> ranks = GoldenGraphs(c.model, c.tp, c.dtype);
  for (int r = 0; r < c.tp; ++r) {
    DS_ASSERT_OK_AND_ASSIGN(
        const GpuPrograms all,
        LowerForGpu(
            ranks[r],
            absl::StrContains(c.model, "t5") ? WithSources() : Ceilings(),
            {r, c.tp}, Hopper()));
    std::set<std::pair<std::string, std::string>> kernels;
    for (const KernelSpec& k : all.kernels) {
      EXPECT_TRUE(kernels.insert({k.source, k.entry}).second) << k.entry;
    }
    EXPECT_EQ(all.service.size() > 0, true);
    for (const LoweredProgram& p : all.programs) {
      ExpectDistinctWhileAlive(p);
      ExpectSyncApart(p);
      EXPECT_LE(p.sync_words, all.sync_words);
      EXPECT_EQ(p.outputs.size(), ranks[r].returns().size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LowerModel,
    testing::Values(
        ModelCase{"llama-gqa-tied", 1, "bf16"},
        ModelCase{"llama-gqa-tied", 3, "fp16"}, ModelCase{"gpt2", 1, "fp32"},
        ModelCase{"gpt2", 2, "bf16"}, ModelCase{"qwen2", 2, "fp16"},
        ModelCase{"qwen2", 3, "fp32"}, ModelCase{"mistral-window", 1, "bf16"},
        ModelCase{"mistral-window", 2, "fp32"}, ModelCase{"bloom", 2, "bf16"},
        ModelCase{"cohere-qk-norm", 2, "fp16"},
        ModelCase{"falcon-rw", 3, "fp32"}, ModelCase{"gemma2", 2, "bf16"},
        ModelCase{"granite", 1, "fp16"}, ModelCase{"olmo2", 3, "bf16"},
        ModelCase{"opt-350m-style", 2, "fp32"},
        ModelCase{"phi3-longrope", 2, "bf16"},
        ModelCase{"llama-dynamic", 2, "fp32"},
        ModelCase{"bert-tokens", 2, "bf16"},
        ModelCase{"bert-one-class", 3, "fp32"},
        ModelCase{"distilbert-mlm", 2, "fp16"},
        ModelCase{"roberta-classify", 1, "bf16"}, ModelCase{"t5", 1, "bf16"},
        ModelCase{"t5-gated", 3, "fp32"}, ModelCase{"mt5-silu", 8, "fp16"}),
    [](const auto& info) {
      std::string name = absl::StrCat(info.param.model, "_tp", info.param.tp,
                                      "_", info.param.dtype);
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace deepslice
