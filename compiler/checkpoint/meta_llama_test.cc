#include "compiler/checkpoint/meta_llama.h"

#include <map>

#include "compiler/checkpoint/test_files.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "gmock/gmock.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using testing::ElementsAre;

constexpr absl::string_view kQ = "model.layers.0.self_attn.q_proj.weight";
constexpr absl::string_view kK = "model.layers.0.self_attn.k_proj.weight";

// A model of width 2 with `heads` heads of width 4, one of keys; on each of
// `ranks` ranks element i of every tensor is 100 * rank + i, and i alone where
// all ranks hold the same.
class MetaLlama : public testing::Test {
 protected:
  void Write(int ranks, int heads, absl::string_view more = "") {
    folder_.Write(
        "params.json",
        absl::StrCat(R"({"dim": 2, "n_layers": 1, "n_heads": )", heads,
                     R"(, "n_kv_heads": 1, "head_dim": 4, )",
                     R"("vocab_size": -1, "max_seq_len": 8)", more, "}"));
    const int q = heads * 4 / ranks;
    for (int r = 0; r < ranks; ++r) {
      tensors_.clear();
      storages_.clear();
      Add("layers.0.attention.wq.weight", 100 * r, {q, 2});
      Add("layers.0.attention.wk.weight", keys_whole_ ? 0 : 100 * r,
          {keys_whole_ ? 4 : 4 / ranks, 2});
      Add("layers.0.attention.wv.weight", keys_whole_ ? 0 : 100 * r,
          {keys_whole_ ? 4 : 4 / ranks, 2});
      Add("layers.0.attention.wo.weight", 100 * r, {2, q});
      for (const char* w : {"w1", "w3"}) {
        Add(absl::StrCat("layers.0.feed_forward.", w, ".weight"), 100 * r,
            {6 / ranks, 2});
      }
      Add("layers.0.feed_forward.w2.weight", 100 * r, {2, 6 / ranks});
      for (const char* norm : {"attention_norm", "ffn_norm"}) {
        Add(absl::StrCat("layers.0.", norm, ".weight"), 0, {2});
      }
      Add("norm.weight", 0, {2});
      Add("rope.freqs", 0, {2});
      Add("output.weight", 100 * r, {3, 2});
      if (embedding_rows_) {
        Add("tok_embeddings.weight", 100 * r, {3, 2});
      } else {
        Add("tok_embeddings.weight", 100 * r, {3 * ranks, 2 / ranks});
      }
      folder_.Write(absl::StrCat("consolidated.0", r, ".pth"),
                    TorchZip(PickleDict(tensors_), storages_));
    }
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
  // The first column.
  static std::vector<float> Rows(const Checkpoint& c, absl::string_view name) {
    const std::vector<float> all = Read(c, name);
    std::vector<float> out;
    for (size_t i = 0; i < all.size(); i += 2) out.push_back(all[i]);
    return out;
  }

  bool embedding_rows_ = false, keys_whole_ = false;
  TempFolder folder_;

 private:
  void Add(const std::string& name, float first,
           const std::vector<int32_t>& shape) {
    int32_t count = 1;
    for (const int32_t d : shape) count *= d;
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(first + i);
    std::vector<int32_t> strides = {1};
    if (shape.size() == 2) strides = {shape[1], 1};
    tensors_.emplace_back(name, PickleTensor(absl::StrCat(storages_.size()),
                                             count, 0, shape, strides));
    storages_.push_back(FloatBytes(values));
  }

  std::vector<std::pair<std::string, std::string>> tensors_;
  std::vector<std::string> storages_;
};

TEST_F(MetaLlama, PutsTheHalvesOfPairsApart) {
  Write(1, 2);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_THAT(Rows(*c, kQ), ElementsAre(0, 4, 2, 6, 8, 12, 10, 14));
  EXPECT_THAT(Rows(*c, kK), ElementsAre(0, 4, 2, 6));
  // Others stay as they lie in the file.
  EXPECT_TRUE(c->Find("model.layers.0.mlp.up_proj.weight")->has_raw_rows());
  EXPECT_EQ(c->Find("rope.freqs"), nullptr);
  EXPECT_EQ(c->config().Find("vocab_size")->as_int(), 3);
  EXPECT_EQ(c->config().Find("intermediate_size")->as_int(), 6);
}

TEST_F(MetaLlama, JoinsRanksThatHoldPartsOfAHead) {
  Write(2, 3);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  // Six rows a rank: the second head lies in both.
  EXPECT_THAT(Rows(*c, kQ),
              ElementsAre(0, 4, 2, 6, 8, 100, 10, 102, 104, 108, 106, 110));
  EXPECT_THAT(Rows(*c, kK), ElementsAre(0, 100, 2, 102));
  EXPECT_THAT(Read(*c, "model.layers.0.self_attn.o_proj.weight"),
              ElementsAre(0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105,  //
                          6, 7, 8, 9, 10, 11, 106, 107, 108, 109, 110, 111));
  EXPECT_THAT(Read(*c, "model.embed_tokens.weight"),
              ElementsAre(0, 100, 1, 101, 2, 102, 3, 103, 4, 104, 5, 105));
  EXPECT_THAT(Read(*c, "lm_head.weight"),
              ElementsAre(0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105));
  EXPECT_THAT(Read(*c, "model.norm.weight"), ElementsAre(0, 1));
}

TEST_F(MetaLlama, TellsEmbeddingsCutByRowsByTheirShape) {
  embedding_rows_ = true;
  Write(2, 2);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_THAT(Read(*c, "model.embed_tokens.weight"),
              ElementsAre(0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105));
}

TEST_F(MetaLlama, TakesCopiesOfKeysOnce) {
  keys_whole_ = true;
  Write(2, 2);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_THAT(Rows(*c, kK), ElementsAre(0, 4, 2, 6));
  EXPECT_EQ(c->Find("model.layers.0.self_attn.v_proj.weight")->rows(), 4);
}

TEST_F(MetaLlama, RefusesKeysThatAreNotRead) {
  Write(1, 2, R"(, "moe": {"num_experts": 2})");
  DS_EXPECT_ERROR(Open(), kUnimplemented, "\"moe\" (mixture of experts)");
  Write(1, 2, R"(, "moe": null)");
  DS_ASSERT_OK(Open());
}

}  // namespace
}  // namespace deepslice
