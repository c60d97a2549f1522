#include "compiler/checkpoint/deepspeed_files.h"
#include "compiler/checkpoint/deepspeed_zero.h"
#include "compiler/checkpoint/test_files.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string Dict(const Pairs& pairs) {
  const std::string pickle = PickleDict(pairs);
  return pickle.substr(2, pickle.size() - 3);
}

TEST(ParseDeepSpeedName, KnowsEveryKindOfFile) {
  const auto is = [](absl::string_view name, DeepSpeedName::Kind kind, int mp,
                     int dp) {
    const auto n = ParseDeepSpeedName(name);
    return n.has_value() && n->kind == kind && n->mp == mp && n->dp == dp;
  };
  EXPECT_TRUE(
      is("mp_rank_03_model_states.pt", DeepSpeedName::kModelStates, 3, 0));
  EXPECT_TRUE(is("zero_pp_rank_12_mp_rank_01_model_states.pt",
                 DeepSpeedName::kZeroModelStates, 1, 12));
  EXPECT_TRUE(is("bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt",
                 DeepSpeedName::kOptimStates, 0, 2));
  EXPECT_TRUE(is("zero_pp_rank_2_mp_rank_07optim_states.pt",
                 DeepSpeedName::kOptimStates, 7, 2));
  EXPECT_TRUE(
      is("layer_04-model_02-model_states.pt", DeepSpeedName::kLayer, 2, 0));
  EXPECT_TRUE(is("layer_04-model_states.pt", DeepSpeedName::kLayer, 0, 0));
  EXPECT_TRUE(is("layer_0_expert_3_mp_rank_01_model_states.pt",
                 DeepSpeedName::kExpert, 1, 0));
  EXPECT_TRUE(
      is("expert_3_mp_rank_01_model_states.pt", DeepSpeedName::kExpert, 1, 0));
  EXPECT_TRUE(is("expp_rank_3_mp_rank_00_optim_states.pt",
                 DeepSpeedName::kExpertOptim, 0, 0));
  for (const char* name :
       {"mp_rank_00", "mp_rank__model_states.pt", "mp_rank_00_model_states.pt2",
        "mp_rank_9999999999_model_states.pt", "zero_pp_rank_1_model_states.pt",
        "zero_pp_rank_0_mp_rank_00_states.pt", "layer_1-model_states", ""}) {
    EXPECT_FALSE(ParseDeepSpeedName(name).has_value()) << name;
  }
}

TEST(AddFlatSlice, CutsASliceIntoAtMostThreeRectangles) {
  for (int64_t rows = 1; rows < 5; ++rows) {
    for (int64_t width = 1; width < 6; ++width) {
      const int64_t count = rows * width;
      for (int64_t begin = 0; begin <= count; ++begin) {
        for (int64_t end = begin; end <= count; ++end) {
          TensorInfo flat, t;
          flat.offset = 64;
          flat.file = 3;
          flat.dtype = DType::kBF16;
          t.shape = {rows, width};
          AddFlatSlice(flat, 7, begin, end - begin, &t);
          EXPECT_LE(t.parts.size(), end > begin ? 3u : 0u);
          std::vector<int64_t> from(count, -1);
          for (const TensorPart& p : t.parts) {
            EXPECT_EQ(p.file, 3);
            for (int64_t r = 0; r < p.rows; ++r) {
              for (int64_t c = 0; c < p.columns; ++c) {
                int64_t& to = from.at((p.row + r) * width + p.column + c);
                EXPECT_EQ(to, -1);
                to = (p.offset - 64) / 2 + r * p.row_stride +
                     c * p.column_stride;
              }
            }
          }
          for (int64_t i = 0; i < count; ++i) {
            EXPECT_EQ(from[i], i < begin || i >= end ? -1 : 7 + i - begin);
          }
        }
      }
    }
  }
}

struct Param {
  std::string name;
  std::vector<int32_t> shape;
  int64_t count() const {
    int64_t n = 1;
    for (const int32_t d : shape) n *= d;
    return n;
  }
};

// A step of ZeRO: every parameter counts on from 1000 times its place.
class Zero : public testing::Test {
 protected:
  static float At(size_t param, int64_t i) { return 1000.0f * param + i; }

  std::string Shapes(const std::vector<Param>& params) const {
    Pairs pairs;
    for (const Param& p : params) {
      pairs.emplace_back(p.name, PickleGlobal("torch", "Size") + "(" +
                                     PickleInts(p.shape) + "tR");
    }
    return Dict(pairs);
  }

  // The state dict of placeholders, and buffers of one element.
  std::string Module(const std::vector<Param>& params) const {
    Pairs pairs;
    for (const Param& p : params) {
      pairs.emplace_back(p.name, PickleTensor("0", 1, 0, {0}, {1}));
    }
    pairs.emplace_back("buffer", PickleTensor("0", 1, 0, {1}, {1}));
    return Dict(pairs);
  }

  void WriteStates(const std::string& name, const Pairs& more) {
    Pairs all = {{"dp_world_size", PickleInt(ranks_)},
                 {"mp_world_size", PickleInt(1)},
                 {"global_steps", PickleInt(7)},
                 {"module", Module(params_)}};
    all.insert(all.end(), more.begin(), more.end());
    folder_.Write(name, TorchZip(PickleDict(all), {FloatBytes({5})}));
  }

  void WriteOptim(int rank, absl::string_view key,
                  const std::vector<std::vector<float>>& groups,
                  int partitions) {
    std::string list = "](";
    std::vector<std::string> storages;
    for (const std::vector<float>& g : groups) {
      const int32_t n = g.size();
      list += PickleTensor(absl::StrCat(storages.size()), n, 0, {n}, {1});
      storages.push_back(FloatBytes(g));
    }
    folder_.Write(
        absl::StrCat("zero_pp_rank_", rank, "_mp_rank_00_optim_states.pt"),
        TorchZip(PickleDict({{"optimizer_state_dict",
                              Dict({{"partition_count", PickleInt(partitions)},
                                    {std::string(key), list + "e"}})}}),
                 storages));
  }

  // Of ZeRO 3: every parameter is cut over the ranks, two groups.
  void WriteStage3(int ranks) {
    ranks_ = ranks;
    const size_t half = params_.size() / 2;
    const std::vector<Param> first(params_.begin(), params_.begin() + half),
        second(params_.begin() + half, params_.end());
    for (int r = 0; r < ranks; ++r) {
      std::vector<std::vector<float>> groups(2);
      for (size_t p = 0; p < params_.size(); ++p) {
        const int64_t share = CeilDiv(params_[p].count(), ranks);
        for (int64_t i = r * share; i < (r + 1) * share; ++i) {
          groups[p < half ? 0 : 1].push_back(i < params_[p].count() ? At(p, i)
                                                                    : -1);
        }
      }
      WriteOptim(r, "fp32_flat_groups", groups, ranks);
      WriteStates(
          absl::StrCat("zero_pp_rank_", r, "_mp_rank_00_model_states.pt"),
          {{"param_shapes", "](" + Shapes(first) + Shapes(second) + "e"},
           {"shared_params", Dict({{"other", PickleText(params_[0].name)}})}});
    }
  }

  // Of ZeRO 1 and 2: a group's parameters side by side, padded and cut.
  void WriteStage2(int ranks) {
    ranks_ = ranks;
    std::vector<float> all;
    for (size_t p = 0; p < params_.size(); ++p) {
      for (int64_t i = 0; i < params_[p].count(); ++i) all.push_back(At(p, i));
    }
    all.resize(RoundUp(all.size(), 2 * ranks), -1);
    const size_t share = all.size() / ranks;
    for (int r = 0; r < ranks; ++r) {
      WriteOptim(r, "single_partition_of_fp32_groups",
                 {{all.begin() + r * share, all.begin() + (r + 1) * share}},
                 ranks);
    }
    ranks_ = ranks;
    Pairs keys = {{"param_shapes", "](" + Shapes(params_) + "e"}};
    WriteStates("mp_rank_00_model_states.pt", keys);
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> Open() {
    folder_.Write("config.json", "{}");
    return OpenCheckpoint(folder_.path());
  }

  void ExpectWhole(const Checkpoint& c) {
    for (size_t p = 0; p < params_.size(); ++p) {
      const TensorInfo* t = c.Find(params_[p].name);
      ASSERT_NE(t, nullptr);
      EXPECT_EQ(t->shape, std::vector<int64_t>(params_[p].shape.begin(),
                                               params_[p].shape.end()));
      for (int64_t begin = 0; begin < t->rows(); ++begin) {
        std::vector<float> row(t->row_elements());
        DS_ASSERT_OK(c.ReadRows(*t, begin, begin + 1, absl::MakeSpan(row)));
        for (size_t i = 0; i < row.size(); ++i) {
          EXPECT_EQ(row[i], At(p, begin * row.size() + i)) << params_[p].name;
        }
      }
    }
    const TensorInfo* buffer = c.Find("buffer");
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(buffer->shape, std::vector<int64_t>{1});
  }

  const std::vector<Param> params_ = {
      {"a", {3, 5}}, {"b", {7}}, {"c", {2, 3, 2}}, {"d", {1}}, {"e", {11, 1}}};
  int ranks_ = 1;
  TempFolder folder_;
};

TEST_F(Zero, JoinsPartitionsOfStage3) {
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    WriteStage3(ranks);
    DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
    ExpectWhole(*c);
    EXPECT_EQ(c->tensors().size(), params_.size() + 2);
    std::vector<float> other(15);
    DS_ASSERT_OK(c->ReadRows(*c->Find("other"), 0, 3, absl::MakeSpan(other)));
    EXPECT_EQ(other[14], 14);
    // What one rank has whole is no parts.
    EXPECT_EQ(c->Find("a")->has_raw_rows(), ranks == 1);
    EXPECT_TRUE(c->Find("d")->has_raw_rows());
  }
}

TEST_F(Zero, JoinsPartitionsOfStages1And2) {
  for (const int ranks : {1, 2, 3, 5}) {
    WriteStage2(ranks);
    DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
    ExpectWhole(*c);
  }
}

TEST_F(Zero, RefusesRanksThatDoNotFit) {
  WriteStage3(3);
  WriteOptim(1, "fp32_flat_groups", {{1, 2, 3}, {4}}, 3);
  DS_EXPECT_ERROR(Open(), kInvalidArgument,
                  "fp32_flat_groups: has 4 elements, too few for tensor \"a\"");
  WriteOptim(1, "fp32_flat_groups", {{1, 2, 3}, std::vector<float>(50)}, 3);
  DS_EXPECT_ERROR(Open(), kInvalidArgument, "has 53 elements");
  WriteOptim(1, "fp32_flat_groups", {{1, 2, 3}}, 3);
  DS_EXPECT_ERROR(Open(), kInvalidArgument, "groups of parameters: 1");
  WriteOptim(1, "fp32_flat_groups", {{1, 2, 3}, {4}}, 4);
  DS_EXPECT_ERROR(Open(), kInvalidArgument,
                  "partition_count: is 4, but the files of 3 ranks are there");
  WriteOptim(1, "single_partition_of_fp32_groups", {{1, 2, 3}, {4}}, 3);
  DS_EXPECT_ERROR(Open(), kInvalidArgument, "is of ZeRO 2");
  unlink(folder_.Path("zero_pp_rank_1_mp_rank_00_optim_states.pt").c_str());
  DS_EXPECT_ERROR(Open(), kNotFound,
                  "zero_pp_rank_1_mp_rank_00_optim_states.pt is missing");
  unlink(folder_.Path("zero_pp_rank_2_mp_rank_00_optim_states.pt").c_str());
  DS_EXPECT_ERROR(Open(), kInvalidArgument,
                  "3 files of model_states and 1 of optim_states");
}

TEST_F(Zero, ReadsAFolderOfOneFile) {
  WriteStage2(2);
  folder_.Write("config.json", "{}");
  DS_ASSERT_OK_AND_ASSIGN(
      const auto c, OpenCheckpoint(folder_.Path("mp_rank_00_model_states.pt")));
  ExpectWhole(*c);
}

// What DeepSpeed itself saved, against its own way to make it whole
// (testdata/make_deepspeed_golden.py).
TEST(DeepSpeedGolden, EveryTensorIsAsDeepSpeedJoinsIt) {
  const char* testdata = std::getenv("DS_CHECKPOINT_TESTDATA");
  ASSERT_NE(testdata, nullptr);
  for (const char* name : {"zero3", "zero2"}) {
    const std::string folder = JoinPath(JoinPath(testdata, "deepspeed"), name);
    DS_ASSERT_OK_AND_ASSIGN(const auto got, OpenCheckpoint(folder));
    DS_ASSERT_OK_AND_ASSIGN(
        const auto want, OpenCheckpoint(JoinPath(folder, "whole.safetensors")));
    EXPECT_EQ(got->tensors().size(), want->tensors().size());
    for (const TensorInfo& w : want->tensors()) {
      const TensorInfo* g = got->Find(w.name);
      ASSERT_NE(g, nullptr) << name << " " << w.name;
      EXPECT_EQ(g->shape, w.shape) << w.name;
      std::vector<float> a(w.num_elements()), b(w.num_elements());
      DS_ASSERT_OK(want->ReadRows(w, 0, w.rows(), absl::MakeSpan(a)));
      DS_ASSERT_OK(got->ReadRows(*g, 0, g->rows(), absl::MakeSpan(b)));
      EXPECT_EQ(a, b) << name << " " << w.name;
    }
  }
}

}  // namespace
}  // namespace deepslice
