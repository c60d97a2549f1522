#include "compiler/checkpoint/presharded.h"

#include "compiler/checkpoint/presharded_names.h"
#include "compiler/checkpoint/test_files.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "gmock/gmock.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using testing::ElementsAre;

TEST(InjectedNames, AreTheEndOfAName) {
  const auto qkv = ParseInjectedName("h.3.attention.attn_qkvb");
  ASSERT_TRUE(qkv.has_value());
  EXPECT_EQ(qkv->prefix, "h.3.");
  EXPECT_EQ(qkv->what, Injected::kQkv);
  EXPECT_TRUE(qkv->is_bias);
  EXPECT_EQ(ParseInjectedName("h.3.norm_w")->what, Injected::kNorm);
  for (const char* other : {"norm_w", "h.3.mynorm_w", "h.3.attn_qkvw", ""}) {
    EXPECT_FALSE(ParseInjectedName(other).has_value()) << other;
  }
}

// Two ranks, one part each. Element i of a tensor is i, of the second rank's
// 100 + i where the ranks differ.
class Presharded : public testing::Test {
 protected:
  struct Stored {
    std::string name;
    std::vector<int32_t> shape;
    bool copy = false;
  };
  void Write(absl::string_view config, const std::vector<Stored>& tensors) {
    folder_.Write("config.json", config);
    folder_.Write("non-tp.pt", TorchZip(PickleDict({}), {}));
    for (int r = 0; r < 2; ++r) {
      std::vector<std::pair<std::string, std::string>> items;
      std::vector<std::string> storages;
      for (const Stored& t : tensors) {
        int32_t count = 1;
        for (const int32_t d : t.shape) count *= d;
        std::vector<float> values;
        for (int i = 0; i < count; ++i) {
          values.push_back((t.copy ? 0 : 100 * r) + i);
        }
        std::vector<int32_t> strides = {1};
        if (t.shape.size() == 2) strides = {t.shape[1], 1};
        items.emplace_back(t.name, PickleTensor(absl::StrCat(storages.size()),
                                                count, 0, t.shape, strides));
        storages.push_back(FloatBytes(values));
      }
      folder_.Write(absl::StrCat("tp_0", r, "_00.pt"),
                    TorchZip(PickleDict(items), storages));
    }
    folder_.Write("ds_inference_config.json",
                  R"({"type": "ds_model", "parallelization": "tp",
                      "checkpoints": {"non_tp": ["non-tp.pt"],
                                      "tp": ["tp_01_00.pt", "tp_00_00.pt"]}})");
  }
  absl::StatusOr<std::unique_ptr<Checkpoint>> Open() {
    return OpenCheckpoint(folder_.path());
  }
  static std::vector<float> Read(const Checkpoint& c, absl::string_view name) {
    const TensorInfo* t = c.Find(name);
    DS_CHECK(t != nullptr);
    std::vector<float> out(t->num_elements());
    DS_CHECK(c.ReadRows(*t, 0, t->rows(), absl::MakeSpan(out)).ok());
    return out;
  }
  TempFolder folder_;
};

TEST_F(Presharded, TurnsLinearsAndJoinsThirds) {
  Write(R"({"model_type": "opt", "num_attention_heads": 2})",
        {{"l.0.attention.attn_qkvw", {2, 3}},
         {"l.0.attention.attn_qkvb", {3}},
         {"l.0.attention.attn_ow", {1, 2}},
         {"l.0.attention.attn_ob", {2}, true},
         {"l.0.mlp.inter_w", {2, 1}},
         {"l.0.norm_b", {2}, true},
         {"embed.weight", {3, 2}, true}});
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_THAT(Read(*c, "l.0.self_attn.q_proj.weight"),
              ElementsAre(0, 3, 100, 103));
  EXPECT_THAT(Read(*c, "l.0.self_attn.v_proj.weight"),
              ElementsAre(2, 5, 102, 105));
  EXPECT_THAT(Read(*c, "l.0.self_attn.k_proj.bias"), ElementsAre(1, 101));
  EXPECT_THAT(Read(*c, "l.0.self_attn.out_proj.weight"),
              ElementsAre(0, 100, 1, 101));
  EXPECT_THAT(Read(*c, "l.0.self_attn.out_proj.bias"), ElementsAre(0, 1));
  EXPECT_THAT(Read(*c, "l.0.fc1.weight"), ElementsAre(0, 1, 100, 101));
  EXPECT_THAT(Read(*c, "l.0.self_attn_layer_norm.bias"), ElementsAre(0, 1));
  EXPECT_EQ(c->Find("embed.weight")->rows(), 3);
}

TEST_F(Presharded, PutsHeadsOfNeoxTogether) {
  // Two heads of width 1 on each rank.
  Write(
      R"({"model_type": "gpt_neox", "num_attention_heads": 4})",
      {{"l.0.attention.attn_qkvb", {6}}, {"l.0.attention.attn_qkvw", {1, 6}}});
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  const auto want = ElementsAre(0, 2, 4, 1, 3, 5, 100, 102, 104, 101, 103, 105);
  EXPECT_THAT(Read(*c, "l.0.attention.query_key_value.bias"), want);
  EXPECT_THAT(Read(*c, "l.0.attention.query_key_value.weight"), want);
}

TEST_F(Presharded, KeepsBloomsOrderAndConv1dsShape) {
  const std::vector<Stored> stored = {{"l.0.attention.attn_qkvw", {2, 3}}};
  Write(R"({"model_type": "bloom"})", stored);
  DS_ASSERT_OK_AND_ASSIGN(const auto bloom, Open());
  EXPECT_THAT(Read(*bloom, "l.0.self_attention.query_key_value.weight"),
              ElementsAre(0, 3, 1, 4, 2, 5, 100, 103, 101, 104, 102, 105));
  Write(R"({"model_type": "gpt2"})", stored);
  DS_ASSERT_OK_AND_ASSIGN(const auto gpt2, Open());
  EXPECT_THAT(Read(*gpt2, "l.0.attn.c_attn.weight"),
              ElementsAre(0, 100, 1, 101, 2, 102, 3, 103, 4, 104, 5, 105));
}

TEST_F(Presharded, PartsGateAndUpWithinEachRank) {
  Write(R"({"model_type": "llama", "num_attention_heads": 1})",
        {{"l.0.mlp.inter_w", {1, 4}}, {"l.0.attention.attn_qkvw", {1, 3}}});
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_THAT(Read(*c, "l.0.mlp.up_proj.weight"), ElementsAre(0, 1, 100, 101));
  EXPECT_THAT(Read(*c, "l.0.mlp.gate_proj.weight"),
              ElementsAre(2, 3, 102, 103));
}

}  // namespace
}  // namespace deepslice
