#include "compiler/checkpoint/megatron_merge.h"
#include "compiler/checkpoint/test_files.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr absl::string_view kQkv = "layers.0.attention.query_key_value.weight";
constexpr absl::string_view kDense = "layers.0.attention.dense.weight";
constexpr absl::string_view kUp = "layers.0.mlp.dense_h_to_4h.weight";
constexpr absl::string_view kWords = "word_embeddings.weight";

// A rank's file: {"model": {name: matrix of two columns}, ...}, `rank` counting
// elements on from 100 * rank.
std::string Rank(int rank,
                 const std::vector<std::pair<absl::string_view, int>>& rows,
                 int version) {
  std::vector<std::pair<std::string, std::string>> tensors;
  std::vector<std::string> storages;
  for (const auto& [name, count] : rows) {
    std::vector<float> values;
    for (int i = 0; i < 2 * count; ++i) values.push_back(100 * rank + i);
    tensors.emplace_back(
        std::string(name),
        PickleTensor(absl::StrCat(storages.size()), 2 * count, 0, {count, 2},
                     // Column by column, as a transposed view has it.
                     name == kDense ? std::vector<int32_t>{1, count}
                                    : std::vector<int32_t>{2, 1}));
    storages.push_back(FloatBytes(values));
  }
  std::string model = PickleDict(tensors);
  // The dict alone: without the protocol and the stop.
  model = model.substr(2, model.size() - 3);
  return TorchZip(PickleDict({{"args", "}"},
                              {"checkpoint_version", PickleInt(version)},
                              {"model", model}}),
                  storages);
}

class Megatron : public testing::Test {
 protected:
  void Write(int ranks,
             const std::vector<std::pair<absl::string_view, int>>& rows,
             int version) {
    for (int r = 0; r < ranks; ++r) {
      folder_.Write(absl::StrCat("mp_rank_0", r, ".pt"),
                    Rank(r, rows, version));
    }
    std::string list;
    for (int r = 0; r < ranks; ++r) {
      absl::StrAppend(&list, r ? "," : "", "\"mp_rank_0", r, ".pt\"");
    }
    folder_.Write("checkpoint.json",
                  absl::StrCat(R"({"type":"Megatron","version":)", version,
                               R"(,"checkpoints":[)", list, "]}"));
  }
  absl::StatusOr<std::unique_ptr<Checkpoint>> Open(OpenOptions options = {}) {
    return OpenCheckpoint(folder_.Path("checkpoint.json"), options);
  }
  static std::vector<float> Read(const Checkpoint& c, absl::string_view name,
                                 int64_t begin, int64_t end) {
    const TensorInfo* t = c.Find(name);
    DS_CHECK(t != nullptr);
    std::vector<float> out((end - begin) * t->row_elements());
    DS_CHECK(c.ReadRows(*t, begin, end, absl::MakeSpan(out)).ok());
    return out;
  }
  TempFolder folder_;
};

TEST_F(Megatron, JoinsThirdsRowsAndColumns) {
  Write(2, {{kQkv, 3}, {kDense, 2}, {kWords, 2}}, 0);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_EQ(Read(*c, kQkv, 0, 6), (std::vector<float>{0, 1, 100, 101, 2, 3, 102,
                                                      103, 4, 5, 104, 105}));
  EXPECT_EQ(Read(*c, kQkv, 1, 3), (std::vector<float>{100, 101, 2, 3}));
  EXPECT_EQ(Read(*c, kDense, 0, 2),
            (std::vector<float>{0, 2, 100, 102, 1, 3, 101, 103}));
  EXPECT_EQ(Read(*c, kWords, 1, 4),
            (std::vector<float>{2, 3, 100, 101, 102, 103}));
  EXPECT_FALSE(c->Find(kQkv)->has_raw_rows());
  EXPECT_EQ(c->Find(kQkv)->bytes, 48u);
  EXPECT_EQ(c->padded_vocab(), 4);
  EXPECT_EQ(c->config().Find("checkpoint_version")->as_int(), 0);
}

TEST_F(Megatron, JoinsTheOrderOfVersion2AlongRows) {
  Write(2, {{kQkv, 3}, {kWords, 2}}, 2);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_EQ(
      Read(*c, kQkv, 0, 6),
      (std::vector<float>{0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105}));
  DS_ASSERT_OK_AND_ASSIGN(const auto thirds, Open({.qkv_layout = "thirds"}));
  EXPECT_EQ(Read(*thirds, kQkv, 1, 2), (std::vector<float>{100, 101}));
}

TEST_F(Megatron, CutsTheVocabulary) {
  Write(3, {{kUp, 2}, {kWords, 2}}, 2);
  for (const int rows : {1, 2, 3, 5}) {
    DS_ASSERT_OK_AND_ASSIGN(const auto c, Open({.vocab_size = rows}));
    const TensorInfo& t = *c->Find(kWords);
    EXPECT_EQ(t.rows(), rows);
    EXPECT_EQ(t.bytes, rows * 8u);
    EXPECT_EQ(Read(*c, kWords, rows - 1, rows)[0],
              (std::vector<float>{0, 2, 100, 102, 200})[rows - 1]);
    EXPECT_EQ(c->Find(kUp)->rows(), 6);
    EXPECT_EQ(c->padded_vocab(), 0);
    EXPECT_EQ(c->config().Find("padded_vocab_size")->as_int(), rows);
  }
  DS_EXPECT_ERROR(Open({.vocab_size = 7}), kInvalidArgument, "allowed: 1 to 6");
}

TEST_F(Megatron, OneRankIsItsOwnWhole) {
  Write(1, {{kQkv, 3}, {kDense, 2}, {kWords, 3}}, 0);
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open({.vocab_size = 2}));
  EXPECT_TRUE(c->Find(kQkv)->parts.empty());
  EXPECT_EQ(c->RawRows(*c->Find(kWords), 0, 2).size(), 16u);
  EXPECT_EQ(Read(*c, kDense, 1, 2), (std::vector<float>{1, 3}));
}

}  // namespace
}  // namespace deepslice
