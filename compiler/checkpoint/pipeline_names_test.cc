#include "compiler/checkpoint/pipeline_names.h"

#include "gtest/gtest.h"

namespace deepslice {
namespace {

using Role = PipelineRole;
using Names = PipelineNames;

std::vector<TensorInfo> Layer(
    const std::vector<std::pair<std::string, int>>& dims) {
  std::vector<TensorInfo> out;
  for (const auto& [name, count] : dims) {
    out.emplace_back();
    out.back().name = name;
    out.back().shape.assign(count, 3);
  }
  return out;
}

TEST(PipelineRole, ShowsInTheTensors) {
  EXPECT_EQ(RoleOfLayer(Layer({{"word_embeddings.weight", 2},
                               {"word_embeddings.norm.bias", 1}}),
                        false),
            Role::kEmbedding);
  EXPECT_EQ(RoleOfLayer(Layer({{"weight", 2}}), false), Role::kEmbedding);
  EXPECT_EQ(RoleOfLayer(Layer({{"weight", 2}}), true), Role::kHead);
  EXPECT_EQ(RoleOfLayer(Layer({{"final_linear.weight", 2}}), true),
            Role::kHead);
  EXPECT_EQ(RoleOfLayer(Layer({{"norm.weight", 1}, {"norm.bias", 1}}), true),
            Role::kFinalNorm);
  EXPECT_EQ(RoleOfLayer(Layer({{"input_layernorm.weight", 1},
                               {"attention.dense.weight", 2}}),
                        false),
            Role::kBlock);
  for (const bool after : {false, true}) {
    EXPECT_FALSE(RoleOfLayer({}, after).has_value());
    EXPECT_FALSE(RoleOfLayer(Layer({{"scale", 1}}), after).has_value());
  }
  EXPECT_FALSE(RoleOfLayer(Layer({{"weight", 1}}), false).has_value());
}

TEST(PipelineNames, AreThoseOfTheFamily) {
  EXPECT_EQ(NameInModel(Names::kMegatron, Role::kBlock, 4, "mlp.w"),
            "language_model.encoder.layers.4.mlp.w");
  EXPECT_EQ(NameInModel(Names::kModel, Role::kEmbedding, 0, "weight"),
            "model.embed_tokens.weight");
  EXPECT_EQ(NameInModel(Names::kModel, Role::kFinalNorm, 0, "norm.weight"),
            "model.norm.weight");
  EXPECT_EQ(NameInModel(Names::kNeox, Role::kHead, 0, "final_linear.weight"),
            "embed_out.weight");
  EXPECT_EQ(NameInModel(Names::kNeox, Role::kBlock, 0,
                        "attention.rotary_emb.inv_freq"),
            "");
  EXPECT_EQ(FromMegatronName(Names::kBloom,
                             "language_model.embedding.word_embeddings."
                             "norm.bias"),
            "transformer.word_embeddings_layernorm.bias");
  EXPECT_EQ(FromMegatronName(Names::kBloom,
                             "language_model.encoder.final_layernorm.bias"),
            "transformer.ln_f.bias");
  EXPECT_EQ(
      FromMegatronName(Names::kNeox, "language_model.encoder.layers.10.mlp.w"),
      "gpt_neox.layers.10.mlp.w");
}

}  // namespace
}  // namespace deepslice
