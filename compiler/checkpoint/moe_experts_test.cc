#include "compiler/checkpoint/moe_experts.h"

#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/test_files.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

std::string Expert(int layer, int expert) {
  return absl::StrCat("m.layers.", layer,
                      ".mlp.deepspeed_moe.experts.deepspeed_experts.", expert,
                      ".up.weight");
}

TensorInfo Tensor(const std::string& name, int64_t rows) {
  TensorInfo t;
  t.name = name;
  t.shape = {rows, 2};
  return t;
}

TEST(ExpertName, IsOfAModuleAndAnExpert) {
  const auto name = ParseExpertName(Expert(3, 12));
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->module, "m.layers.3.mlp");
  EXPECT_EQ(name->expert, 12);
  EXPECT_EQ(name->rest, "up.weight");
  for (const char* other : {"a.deepspeed_moe.gate.wg.weight",
                            "a.deepspeed_moe.experts.deepspeed_experts.",
                            "a.deepspeed_moe.experts.deepspeed_experts.x.w",
                            "a.deepspeed_moe.experts.deepspeed_experts.1",
                            "a.deepspeed_moe.experts.deepspeed_experts.1.",
                            ".deepspeed_moe.experts.deepspeed_experts.1.w"}) {
    EXPECT_FALSE(ParseExpertName(other).has_value()) << other;
  }
}

TEST(MoeLayers, GoByNumberAndTakeTheGatesRows) {
  const std::vector<TensorInfo> tensors = {
      Tensor(Expert(11, 0), 4),
      Tensor(Expert(11, 1), 4),
      Tensor(Expert(3, 0), 4),
      Tensor("m.layers.3.mlp.deepspeed_moe.gate.wg.weight", 8),
      Tensor("m.layers.3.mlp.coefficient.weight", 2),
      Tensor("m.layers.4.mlp.coefficient.weight", 2)};
  const std::vector<MoeLayer> layers = FindMoeLayers(tensors);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].module, "m.layers.3.mlp");
  EXPECT_EQ(layers[0].experts, 8);
  EXPECT_TRUE(layers[0].residual);
  EXPECT_EQ(layers[1].module, "m.layers.11.mlp");
  EXPECT_EQ(layers[1].experts, 2);
  EXPECT_FALSE(layers[1].residual);
}

// Two experts of layer 5, in files of their own.
class ExpertFiles : public testing::Test {
 protected:
  void Write(int counted) {
    folder_.Write("config.json", R"({"model_type": "some"})");
    std::string module =
        PickleDict({{"m.layers.5.mlp.deepspeed_moe.gate.wg.weight",
                     PickleTensor("0", 6, 0, {2, 3}, {3, 1})}});
    module = module.substr(2, module.size() - 3);
    folder_.Write(
        "mp_rank_00_model_states.pt",
        TorchZip(PickleDict({{"module", module},
                             {"num_experts", "](" + PickleInt(counted) + "e"}}),
                 {FloatBytes({1, 2, 3, 4, 5, 6})}));
    for (const int e : {0, 1}) {
      const float value = 10 * e;
      folder_.Write(
          absl::StrCat("layer_0_expert_", e, "_mp_rank_00_model_states.pt"),
          TorchZip(PickleDict({{Expert(5, e),
                                PickleTensor("0", 2, 0, {2, 1}, {1, 1})}}),
                   {FloatBytes({value, value + 1})}));
    }
  }
  TempFolder folder_;
};

TEST_F(ExpertFiles, ArePartOfTheCheckpoint) {
  Write(2);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, OpenCheckpoint(folder_.path()));
  EXPECT_EQ(c->tensors().size(), 3u);
  const TensorInfo* t = c->Find(Expert(5, 1));
  ASSERT_NE(t, nullptr);
  std::vector<float> values(2);
  DS_ASSERT_OK(c->ReadRows(*t, 0, 2, absl::MakeSpan(values)));
  EXPECT_EQ(values, (std::vector<float>{10, 11}));
  DS_EXPECT_ERROR(RefuseMoeLayers(*c), kUnimplemented,
                  "1 MoE layer of 2 experts (m.layers.5.mlp)");
}

TEST_F(ExpertFiles, AreAsManyAsTheModelSays) {
  Write(3);
  DS_EXPECT_ERROR(OpenCheckpoint(folder_.path()), kNotFound,
                  "layer_0_expert_2_mp_rank_00_model_states.pt is missing");
}

TEST(MoeLayers, AreRefusedByTheirNumbers) {
  CheckpointParts parts;
  parts.sources.push_back({"/step/file.pt", "", {}});
  for (const int layer : {2, 4, 10}) {
    for (int e = 0; e < 3; ++e) {
      parts.tensors.push_back(Tensor(Expert(layer, e), 4));
    }
  }
  DS_EXPECT_ERROR(RefuseMoeLayers(*MakeCheckpoint(std::move(parts))),
                  kUnimplemented,
                  "/step: has 3 MoE layers of 3 experts (m.layers.2.mlp to "
                  "m.layers.10.mlp)");
  DS_ASSERT_OK(RefuseMoeLayers(*MakeCheckpoint({})));
}

}  // namespace
}  // namespace deepslice
