#include "runtime/plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "gtest/gtest.h"
#include "runtime/manifest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"
#include "tests/support/plan_builder.h"

namespace deepslice {
namespace {

namespace fs = std::filesystem;

class PlanLoad : public testing::Test {
 protected:
  PlanLoad()
      : folder_(testing::TempDir() + "/plan " +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    WritePlanFolder(folder_, {TinyLlama{.rank = 0, .world = 2}.Build(),
                              TinyLlama{.rank = 1, .world = 2}.Build()});
  }
  ~PlanLoad() override { fs::remove_all(folder_); }

  std::string At(const std::string& name) const {
    return JoinPath(folder_, name);
  }
  std::string Read(const std::string& name) const {
    return *ReadFile(At(name), 1 << 30);
  }
  void Write(const std::string& name, const std::string& bytes) const {
    ASSERT_TRUE(WriteFile(At(name), bytes).ok());
  }
  void Replace(const std::string& from, const std::string& to) const {
    std::string text = Read("manifest.json");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Write("manifest.json", text.replace(at, from.size(), to));
  }
  absl::StatusOr<Plan> Load(int rank = 1) const {
    return Plan::Load(folder_, rank, {.threads = 2});
  }

  const std::string folder_;
};

TEST_F(PlanLoad, GivesPlanAndWeightsOfTheRank) {
  DS_ASSERT_OK_AND_ASSIGN(const Plan plan, Load());
  EXPECT_EQ(plan.rank(), 1);
  EXPECT_EQ(plan.world_size(), 2);
  EXPECT_EQ(*PlanWorldSize(folder_), 2);
  ASSERT_NE(plan.FindProgram("cpu", fb::ProgramKind::Step), nullptr);
  EXPECT_EQ(plan.FindProgram("sm_90a", fb::ProgramKind::Step), nullptr);
  EXPECT_EQ(plan.FindProgram("cpu", fb::ProgramKind::Encode), nullptr);
  const TestPlan wanted = TinyLlama{.rank = 1, .world = 2}.Build();
  for (uint32_t i = 0; i < plan.fb().weights()->size(); ++i) {
    const fb::WeightT& w = *wanted.plan.weights[i];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(plan.weight_data(i)) % 256, 0u);
    EXPECT_EQ(
        std::memcmp(plan.weight_data(i), &wanted.weights[w.offset], w.bytes), 0)
        << w.name;
    EXPECT_EQ(plan.weight_scales(i), nullptr);
  }
}

TEST_F(PlanLoad, SurvivesAMove) {
  DS_ASSERT_OK_AND_ASSIGN(Plan first, Load());
  const void* data = first.weight_data(0);
  const Plan second = std::move(first);
  EXPECT_EQ(second.weight_data(0), data);
  EXPECT_EQ(second.fb().vocab_size(), 131);
}

TEST_F(PlanLoad, NamesAFolderThatIsNone) {
  DS_EXPECT_ERROR(Plan::Load(folder_ + "x", 0), kNotFound, "no such folder");
  DS_EXPECT_ERROR(Plan::Load(At("manifest.json"), 0), kNotFound,
                  "a file, not a plan folder");
  unlink(At("manifest.json").c_str());
  DS_EXPECT_ERROR(Load(), kNotFound, "its writing was cut short");
  DS_EXPECT_ERROR(PlanWorldSize(folder_), kNotFound, "manifest.json");
}

TEST_F(PlanLoad, SaysHowACheckpointBecomesAPlan) {
  for (const char* name : {"config.json", "m.gguf", "model.safetensors"}) {
    DS_ASSERT_OK(WriteFile(At(name), "{}"));
  }
  DS_EXPECT_ERROR(Plan::Load(At("m.gguf"), 0), kNotFound,
                  absl::StrCat("m.gguf: a checkpoint, not a plan; compile it "
                               "first: dscompile ",
                               At("m.gguf"), " -o plan/"));
  DS_EXPECT_ERROR(Plan::Load(At("model.safetensors"), 0), kNotFound,
                  "a checkpoint, not a plan");
  DS_ASSERT_OK(Load());
  unlink(At("manifest.json").c_str());
  DS_EXPECT_ERROR(Load(), kNotFound, "a model's folder, not a plan");
}

TEST_F(PlanLoad, RejectsRanksThatThePlanLacks) {
  DS_EXPECT_ERROR(Load(2), kNotFound,
                  "rank 2: the plan is for 2 ranks, 0 to 1");
  DS_EXPECT_ERROR(Load(-1), kNotFound, "rank -1");
}

TEST_F(PlanLoad, RejectsADamagedManifest) {
  const std::string whole = Read("manifest.json");
  for (size_t n = 0; n + 1 < whole.size(); n += 7) {
    Write("manifest.json", whole.substr(0, n));
    DS_EXPECT_ERROR(Load(), kDataLoss, "manifest.json");
  }
  using Change = std::pair<const char*, const char*>;
  for (const auto& [from, to] : std::vector<Change>{
           {"\"world_size\": 2", "\"world_size\": 0"},
           {"\"world_size\": 2", "\"world_size\": 4097"},
           {"\"world_size\": 2", "\"world_size\": 3"},
           {"\"world_size\": 2", "\"world_size\": 1"},
           {"\"world_size\": 2", "\"world_size\": \"2\""},
           {"\"test set\"", "\"\""},
           {"\"test set\"", "\"another\""},
           {"rank_0001.plan", "../rank_0001.plan"},
           {"rank_0001.plan", "rank_0000.plan"},
           {"\"bytes\": ", "\"bytes\": 1"},
           {"\"bytes\": ", "\"bytes\": -1"},
           {"\"deepslice_plan\": 1", "\"deepslice_plan\": 0"}}) {
    Write("manifest.json", whole);
    Replace(from, to);
    DS_EXPECT_ERROR(Load(), kDataLoss, folder_);
  }
}

TEST_F(PlanLoad, RefusesANewerFormatInWords) {
  Replace("\"deepslice_plan\": 1", "\"deepslice_plan\": 7");
  DS_EXPECT_ERROR(Load(), kFailedPrecondition,
                  "made by plan format 7; this build reads up to 1; rebuild "
                  "the plan or update");
  TestPlan newer = TinyLlama().Build();
  newer.plan.format_version = 7;
  DS_EXPECT_ERROR(newer.Load(), kFailedPrecondition,
                  "test: made by plan format 7; this build reads up to 1");
  newer.plan.format_version = 0;
  DS_EXPECT_ERROR(newer.Load(), kDataLoss, "format_version 0");
}

TEST_F(PlanLoad, RejectsMissingAndExtraRankFiles) {
  Write("rank_0002.plan", "x");
  DS_EXPECT_ERROR(Load(), kDataLoss,
                  "rank_0002.plan: not in manifest.json, so of another plan");
  unlink(At("rank_0002.plan").c_str());
  Write("notes.txt", "files of the user's own are no harm");
  DS_ASSERT_OK(Load());
  unlink(At("rank_0000.weights").c_str());
  DS_EXPECT_ERROR(Load(), kNotFound, "rank_0000.weights: no such file");
}

TEST_F(PlanLoad, RejectsFilesOfAnotherSizeOrKind) {
  const std::string weights = Read("rank_0001.weights");
  Write("rank_0001.weights", weights.substr(1));
  DS_EXPECT_ERROR(Load(), kDataLoss, "rank_0001.weights: has 24575 bytes");
  Write("rank_0001.weights", weights + "x");
  DS_EXPECT_ERROR(Load(), kDataLoss, "manifest.json says 24576");
  unlink(At("rank_0001.weights").c_str());
  mkdir(At("rank_0001.weights").c_str(), 0700);
  DS_EXPECT_ERROR(Load(), kDataLoss, "not a regular file");
  rmdir(At("rank_0001.weights").c_str());
  mkfifo(At("rank_0001.weights").c_str(), 0600);
  DS_EXPECT_ERROR(Load(), kDataLoss, "not a regular file");
}

TEST_F(PlanLoad, RejectsTheFileOfAnotherRankOrSet) {
  const std::string first = Read("rank_0000.plan");
  const std::string weights = Read("rank_0000.weights");
  WritePlanFolder(folder_, {TinyLlama{.rank = 0, .world = 2}.Build(),
                            TinyLlama{.rank = 0, .world = 2}.Build()});
  DS_EXPECT_ERROR(Load(), kDataLoss,
                  "rank_0001.plan: holds the plan of rank 0");
  TestPlan other = TinyLlama{.rank = 1, .world = 2}.Build();
  other.plan.plan_set_id = "other set";
  WritePlanFolder(folder_, {TinyLlama{.rank = 0, .world = 2}.Build(), other});
  DS_EXPECT_ERROR(Load(), kDataLoss,
                  "of plan set other set, manifest.json of test set");
  WritePlanFolder(folder_, {TinyLlama().Build(), TinyLlama().Build()});
  DS_EXPECT_ERROR(Load(0), kDataLoss, "for 1 ranks, manifest.json for 2");
}

TEST(PlanWeights, NamesTheDamagedBlockAndWeight) {
  PlanBuilder b;
  b.AddWeight("small", {3}, {1, 2, 3});
  b.AddWeight("embed", {131, 5000}, std::vector<float>(131 * 5000, 0.5f));
  b.AddOp(OpKind::kEmbed, "x", {"ids", "embed"}, {{0}}, "T", 5000);
  TestPlan plan = b.Build("x", 5000);
  ASSERT_EQ(plan.plan.weights_xxh3.size(), 3u);
  DS_ASSERT_OK(plan.Load());
  plan.weights[(1 << 20) + 77] ^= 1;
  plan.weights.back() ^= 1;
  for (const int threads : {1, 2, 8}) {
    DS_EXPECT_ERROR(
        Plan::FromBytes(plan.Bytes(), plan.weights, "p", {.threads = threads}),
        kDataLoss, "block 1, bytes 1048576 to 2097151 (in @embed), is damaged");
  }
  DS_ASSERT_OK(Plan::FromBytes(plan.Bytes(), plan.weights, "p",
                               {.check_weights = false}));
  plan.Seal();
  DS_ASSERT_OK(plan.Load());
  plan.weights.pop_back();
  DS_EXPECT_ERROR(plan.Load(), kDataLoss, "its plan says");
}

TEST(PlanBytes, RejectsWhatIsNoPlan) {
  DS_EXPECT_ERROR(Plan::FromBytes("", "", "p"), kDataLoss, "p: 0 bytes");
  DS_EXPECT_ERROR(Plan::FromBytes("\x18\0\0\0DSPL", "", "p"), kDataLoss,
                  "16 to 1073741824 are allowed");
  DS_EXPECT_ERROR(Plan::FromBytes(std::string(100, 'x'), "", "p"), kDataLoss,
                  "bytes 4 to 7 are not \"DSPL\"");
  std::string bytes(100, '\xff');
  bytes.replace(4, 4, "DSPL");
  DS_EXPECT_ERROR(Plan::FromBytes(bytes, "", "p"), kDataLoss,
                  "not a whole FlatBuffer");
}

}  // namespace
}  // namespace deepslice
