#include "compiler/model.h"

#include <algorithm>

#include "compiler/model_attributes.h"
#include "compiler/model_weights.h"
#include "compiler/policy.h"
#include "compiler/test_checkpoint.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr char kTied[] = "\"tie_word_embeddings\": true";

absl::StatusOr<ModelDescription> Describe(const std::string& config,
                                          const TestTensors& tensors,
                                          const DescribeOptions& options = {}) {
  TempFolder folder;
  DS_ASSIGN_OR_RETURN(const auto checkpoint,
                      MakeTestCheckpoint(folder, config, tensors));
  return DescribeModel(*checkpoint, options);
}

const TensorUse* Use(const ModelDescription& m, absl::string_view tensor) {
  for (const TensorUse& use : m.coverage.tensors) {
    if (use.tensor == tensor) return &use;
  }
  return nullptr;
}

TEST(DescribeModel, ReadsSizesAndAccountsForEveryTensor) {
  TestTensors tensors = LlamaTensors();
  tensors["model.layers.1.self_attn.rotary_emb.inv_freq"] = {{5}};
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m,
                          Describe(LlamaConfig(), tensors));
  EXPECT_EQ(m.family, "llama");
  EXPECT_EQ(m.architecture, "LlamaForCausalLM");
  EXPECT_EQ(m.layers, 2);
  EXPECT_EQ(m.heads, 6);
  EXPECT_EQ(m.kv_heads, 2);
  EXPECT_EQ(m.head_dim, 10);
  EXPECT_EQ(m.inner_size, 20);
  EXPECT_EQ(m.vocab_size, 131);
  EXPECT_EQ(m.max_positions, 64);
  EXPECT_EQ(m.norm_eps, 1e-6);
  EXPECT_FALSE(m.tied_head);
  EXPECT_EQ(m.dtype, DType::kF32);
  EXPECT_TRUE(m.notes.empty());

  EXPECT_EQ(m.coverage.tensors.size(), tensors.size());
  const TensorUse* q = Use(m, "model.layers.1.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->weights, std::vector<std::string>{"layers.1.attn_q"});
  const TensorUse* unused =
      Use(m, "model.layers.1.self_attn.rotary_emb.inv_freq");
  ASSERT_NE(unused, nullptr);
  EXPECT_EQ(unused->kind, TensorUse::Kind::kUnused);
  EXPECT_EQ(unused->rule, "{prefix}layers.{i}.self_attn.rotary_emb.inv_freq");
  EXPECT_EQ(json::Write(CoverageJson({{*q, *unused}})),
            "[{\"tensor\":\"model.layers.1.self_attn.q_proj.weight\",\"use\":"
            "\"weight\",\"weights\":[\"layers.1.attn_q\"]},{\"tensor\":"
            "\"model.layers.1.self_attn.rotary_emb.inv_freq\",\"use\":"
            "\"unused\",\"rule\":"
            "\"{prefix}layers.{i}.self_attn.rotary_emb.inv_freq\"}]");
}

TEST(DescribeModel, DividesFrequenciesByATensorThatTheConfigNames) {
  TestTensors tensors = LlamaTensors();
  tensors["factors"] = {{5}, "", {1, 1, 1.5, 8, 8}};
  const std::string named = "\"rope_freq_factors_tensor\": \"factors\"";
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m,
                          Describe(LlamaConfig(named), tensors));
  EXPECT_EQ(m.rope.formula, "rope_freqs_factors");
  EXPECT_EQ(m.rope.arguments,
            (std::vector<std::pair<std::string, double>>{{"base", 10000},
                                                         {"rotary_dim", 10},
                                                         {"factor_0", 1},
                                                         {"factor_1", 1},
                                                         {"factor_2", 1.5},
                                                         {"factor_3", 8},
                                                         {"factor_4", 8}}));
  EXPECT_EQ(Use(m, "factors")->weights, std::vector<std::string>{"rope_freqs"});

  DS_EXPECT_ERROR(Describe(LlamaConfig(named + R"(, "rope_scaling":
                                      {"type": "linear", "factor": 2})"),
                           tensors),
                  kUnimplemented, "one scaling of rotary frequencies");
  tensors["factors"].values[3] = 0;
  DS_EXPECT_ERROR(Describe(LlamaConfig(named), tensors), kInvalidArgument,
                  "tensor \"factors\": found 0; allowed: numbers above 0");
  tensors["factors"] = {{4}};
  DS_EXPECT_ERROR(Describe(LlamaConfig(named), tensors), kInvalidArgument,
                  "rope_freq_factors_tensor: found \"factors\"; allowed: a "
                  "tensor of shape [5]");
}

TEST(DescribeModel, TakesNamesWithoutThePrefix) {
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m,
                          Describe(LlamaConfig(), LlamaTensors("")));
  EXPECT_EQ(m.FindWeight("layers.1.mlp_out")->source.pieces[0].tensor,
            "layers.1.mlp.down_proj.weight");
}

TEST(DescribeModel, CutsAFusedTransposedTensorInThirds) {
  DS_ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                          OpenCheckpoint(GoldenCasePath("gpt2")));
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m, DescribeModel(*checkpoint));
  const SourcePiece k = {
      "transformer.h.2.attn.c_attn.weight", true, {64, 128}, {0, 64}};
  EXPECT_EQ(m.FindWeight("layers.2.attn_k")->source.pieces,
            std::vector<SourcePiece>{k});
  EXPECT_EQ(Use(m, k.tensor)->weights,
            (std::vector<std::string>{"layers.2.attn_q", "layers.2.attn_k",
                                      "layers.2.attn_v"}));
  EXPECT_EQ(m.inner_size, 256);
  EXPECT_TRUE(m.tied_head);
}

// ---- the head --------------------------------------------------------------

TEST(TiedHead, IsTheEmbeddingWhenAbsent) {
  TestTensors tensors = LlamaTensors();
  tensors.erase("lm_head.weight");
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m,
                          Describe(LlamaConfig(kTied), tensors));
  EXPECT_TRUE(m.tied_head);
  EXPECT_EQ(m.FindWeight("head")->source, m.FindWeight("embed")->source);
  EXPECT_EQ(Use(m, "model.embed_tokens.weight")->weights,
            (std::vector<std::string>{"embed", "head"}));
}

TEST(TiedHead, IsSharedWhenPresentAndEqual) {
  TestTensors tensors = LlamaTensors();
  tensors["lm_head.weight"].values_of = "model.embed_tokens.weight";
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m,
                          Describe(LlamaConfig(kTied), tensors));
  EXPECT_TRUE(m.tied_head);
  EXPECT_EQ(Use(m, "lm_head.weight")->kind, TensorUse::Kind::kTied);
  EXPECT_EQ(m.FindWeight("head")->source.pieces[0].tensor,
            "model.embed_tokens.weight");
}

TEST(TiedHead, IsRefusedWhenDifferentUnlessTrusted) {
  DS_EXPECT_ERROR(Describe(LlamaConfig(kTied), LlamaTensors()),
                  kInvalidArgument,
                  "tensor \"lm_head.weight\": found numbers that differ from "
                  "\"model.embed_tokens.weight\"");
  DS_ASSERT_OK_AND_ASSIGN(
      const ModelDescription m,
      Describe(LlamaConfig(kTied), LlamaTensors(), {.trust_lm_head = true}));
  EXPECT_FALSE(m.tied_head);
  EXPECT_EQ(m.FindWeight("head")->source.pieces[0].tensor, "lm_head.weight");
  ASSERT_EQ(m.notes.size(), 1u);
}

TEST(TiedHead, IsNotAssumedUnlessAsked) {
  TestTensors tensors = LlamaTensors();
  tensors.erase("lm_head.weight");
  DS_EXPECT_ERROR(Describe(LlamaConfig(), tensors), kNotFound,
                  "tensor \"lm_head.weight\" is not there");
  DS_ASSERT_OK_AND_ASSIGN(
      const ModelDescription m,
      Describe(LlamaConfig(), tensors, {.assume_tied = true}));
  EXPECT_TRUE(m.tied_head);
}

// ---- what doesn't fit ------------------------------------------------------

TEST(DescribeModel, ListsMissingAndLeftOverTensorsByName) {
  TestTensors tensors = LlamaTensors();
  tensors.erase("model.norm.weight");
  DS_EXPECT_ERROR(Describe(LlamaConfig(), tensors), kNotFound,
                  "policy llama: 1 tensor is not in the checkpoint: "
                  "\"model.norm.weight\"");
  for (const char* slot : {"q", "k", "v", "o"}) {
    tensors.erase(
        absl::StrCat("model.layers.0.self_attn.", slot, "_proj.weight"));
  }
  DS_EXPECT_ERROR(Describe(LlamaConfig(), tensors), kNotFound,
                  "5 tensors are not in the checkpoint: "
                  "\"model.layers.0.self_attn.q_proj.weight\", "
                  "\"model.layers.0.self_attn.k_proj.weight\", "
                  "\"model.layers.0.self_attn.v_proj.weight\" and 2 more");

  tensors = LlamaTensors();
  tensors["model.layers.1.self_attn.q_norm.weight"] = {{10}};
  DS_EXPECT_ERROR(Describe(LlamaConfig(), tensors), kNotFound,
                  "policy llama: 1 tensor matches no pattern: "
                  "\"model.layers.1.self_attn.q_norm.weight\"; add a pattern");
}

TEST(DescribeModel, RefusesShapesThatTheConfigDoesNotGive) {
  TestTensors tensors = LlamaTensors();
  tensors["model.layers.1.self_attn.k_proj.weight"].shape = {60, 12};
  DS_EXPECT_ERROR(Describe(LlamaConfig(), tensors), kInvalidArgument,
                  "tensor \"model.layers.1.self_attn.k_proj.weight\": found "
                  "shape [60, 12]; allowed: [20, 12]");
}

TEST(DescribeModel, RefusesAnotherNumberOfLayers) {
  DS_EXPECT_ERROR(Describe(LlamaConfig(), LlamaTensors("model.", 3)),
                  kInvalidArgument, "num_hidden_layers: found 2; allowed: 3");
  DS_EXPECT_ERROR(Describe(LlamaConfig(), LlamaTensors("model.", 1)),
                  kInvalidArgument, "num_hidden_layers: found 2; allowed: 1");
}

TEST(DescribeModel, RefusesBiasesThatContradictTheFlag) {
  TestTensors tensors = LlamaTensors();
  DS_EXPECT_ERROR(Describe(LlamaConfig("\"attention_bias\": true"), tensors),
                  kInvalidArgument,
                  "config.json: attention_bias: found true, but tensor "
                  "\"model.layers.0.self_attn.q_proj.bias\" is not there");
  tensors["model.layers.1.self_attn.o_proj.bias"] = {{12}};
  DS_EXPECT_ERROR(
      Describe(LlamaConfig(), tensors), kInvalidArgument,
      "attention_bias or bias: absent, which means false, but tensor "
      "\"model.layers.1.self_attn.o_proj.bias\" is there");
}

TEST(DescribeModel, TakesTheVocabularyFromTheEmbeddingWhenNotGiven) {
  std::string config = LlamaConfig();
  config.replace(config.find("\"vocab_size\": 131"), 17, "\"vocab_size\": -1");
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription m,
                          Describe(config, LlamaTensors()));
  EXPECT_EQ(m.vocab_size, 131);
  ASSERT_EQ(m.notes.size(), 1u);
  EXPECT_EQ(m.notes[0],
            "config.json: no vocab_size; the embedding has 131 rows");
}

TEST(DescribeModel, NamesWhatItDoesNotSupport) {
  const auto expect = [](absl::string_view more, absl::string_view part) {
    DS_EXPECT_ERROR(Describe(LlamaConfig(more), LlamaTensors()), kUnimplemented,
                    part);
  };
  expect(R"("quantization_config": {"quant_method": "gptq", "bits": 3})",
         "quantization_config: found weights quantised by \"gptq\"");
  expect(R"("text_config": {})", "text_config: found a model inside");
  expect(R"("torch_dtype": "float8_e4m3fn")", "torch_dtype: found");
  expect(R"("hidden_act": "relu6")", "hidden_act: found \"relu6\"");
}

TEST(DescribeModel, NotesWhatAUserShouldKnow) {
  DS_ASSERT_OK_AND_ASSIGN(
      const ModelDescription m,
      Describe(LlamaConfig(R"("auto_map": {"AutoModel": "m.M"},
                              "pad_token_id": 131, "eos_token_id": [2, 3],
                              "bos_token_id": -1, "dtype": "bfloat16",
                              "torch_dtype": "bfloat16")"),
               LlamaTensors()));
  ASSERT_EQ(m.notes.size(), 2u);
  EXPECT_EQ(m.notes[0],
            "config.json: auto_map names code that comes with the checkpoint; "
            "it is never run");
  EXPECT_EQ(m.notes[1],
            "config.json: pad_token_id 131 is beyond the vocabulary of 131; it "
            "can't occur");
}

// A family with an offset position table, unlike those that are built in.
TEST(ResolveWeights, SkipsThePositionRowsThatAnOffsetLeavesOut) {
  DS_ASSERT_OK_AND_ASSIGN(const Policy policy,
                          ParsePolicy(R"({"policy": "p", "architectures": ["P"],
          "model_types": ["p"], "prefixes": [], "unused": [],
          "attributes": {"hidden_size": 12, "layers": 1, "heads": 3,
            "kv_heads": 3, "head_dim": {"derive": "hidden_size_over_heads"},
            "inner_size": 20, "vocab_size": 31, "max_positions": 16,
            "norm": "layer", "norm_placement": "pre", "norm_eps": 1e-5,
            "activation": "relu", "positions": "learned", "position_offset": 2,
            "attention_scale": "one", "attention_scale_by_layer": true,
            "tied_head": true},
          "weights": [{"name": "wte", "weight": "embed"},
                      {"name": "wpe", "weight": "pos_embed"}]})",
                                      "p.json"));
  TempFolder folder;
  DS_ASSERT_OK_AND_ASSIGN(
      const auto checkpoint,
      MakeTestCheckpoint(folder, "{}",
                         {{"wte", {{31, 12}}}, {"wpe", {{18, 12}}}}));
  ModelDescription m;
  ModelFlags flags;
  DS_ASSERT_OK(DescribeAttributes(policy, checkpoint->config(), &m, &flags));
  DS_ASSERT_OK(ResolveWeights(policy, flags, *checkpoint, {}, &m));
  const SourcePiece piece = {"wpe", false, {2, 18}, {0, 12}};
  EXPECT_EQ(m.FindWeight("pos_embed")->source.pieces,
            std::vector<SourcePiece>{piece});
  EXPECT_EQ(m.layer[0].attention_scale, 1);
}

}  // namespace
}  // namespace deepslice
