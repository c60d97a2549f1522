// What preparing a run on a GPU takes, checks and refuses.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"
#include "runtime/testing/cuda_testing.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"
#include "schema/synthetic.h"
#include "tests/support/plan_builder.h"

namespace deepslice {
namespace {

TEST(PrepareCuda, TakesThePlannedMemory) {
  FakeGpu fake;
  Prepared p = Prepare(&fake, GpuTestPlan(100'000));
  DS_ASSERT_OK(p.executor.status());
  int64_t taken = 0;
  for (const Executor::MemoryLine& line : p->memory()) {
    if (line.in_plan) {
      EXPECT_EQ(line.planned, line.actual) << line.what;
    }
    if (line.in_plan || line.what == "workspace") taken += line.actual;
  }
  EXPECT_EQ(taken, fake.allocated());
  const auto& lines = p->memory();
  EXPECT_EQ(lines[0].actual, 102'400);   // weights
  EXPECT_EQ(lines[1].actual, 2 * 4096);  // 20 blocks of 192 bytes
  const int before = fake.calls("MemAlloc");
  const OwnedBatch batch(*p.executor->get(), {{0, 0, {7, 8}}});
  DS_ASSERT_OK(p->Execute(batch.view()));
  EXPECT_EQ(fake.calls("MemAlloc"), before);
  p.executor->reset();
  EXPECT_EQ(fake.allocated(), 0);
}

TEST(PrepareCuda, CopiesEveryByteOfTheWeights) {
  FakeGpu fake;
  const GpuTestPlan plan(9'500'000);  // three parts, the last one short
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  bool found = false;
  for (const auto& [at, bytes] : fake.memory) {
    if (bytes != plan.weights.size()) continue;
    found = true;
    EXPECT_EQ(
        std::memcmp(reinterpret_cast<void*>(at), plan.weights.data(), bytes),
        0);
  }
  EXPECT_TRUE(found);
}

TEST(PrepareCuda, NoticesAFlippedBitOfTheWeights) {
  FakeGpu fake;
  GpuTestPlan plan(9'500'000);
  plan.weights[7'000'000] ^= 4;
  const absl::Status s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(
      s.message(),
      "test (weights): block 6, bytes 6291456 to 7340031 (in @ballast), "
      "is damaged: its XXH3 differs from the plan's; copy the file again");
  EXPECT_EQ(fake.allocated(), 0);
}

TEST(PrepareCuda, FillsMadeUpWeightsOnTheDevice) {
  FakeGpu fake;
  GpuTestPlan plan;
  auto w = std::make_unique<fb::WeightT>();
  w->name = "made_up";
  w->shape = {5, 3};
  w->bytes = 60;
  w->origin = fb::WeightOrigin::Synthetic;
  w->offset = plan.weights.size();
  w->synthetic_mean = 1;
  w->pieces = {{77, 0, 2, 3, 10, 4}, {78, 1, 2, 2, 0, 5}};
  plan.plan.weights.push_back(std::move(w));
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  const auto found = std::find_if(
      fake.memory.begin(), fake.memory.end(),
      [&](const auto& m) { return m.second == plan.weights.size() + 60; });
  ASSERT_NE(found, fake.memory.end());
  const auto* at =
      reinterpret_cast<const float*>(found->first + plan.weights.size());
  for (int row = 0; row < 5; ++row) {
    for (int col = 0; col < 3; ++col) {
      const float u = row % 2 == 0 ? SyntheticUnit(77, 10 + row / 2, 4 + col)
                                   : SyntheticUnit(78, row / 2, 5 + col);
      EXPECT_EQ(at[3 * row + col], 1 + u) << row << ", " << col;
    }
  }
}

TEST(PrepareCuda, SaysWhichBatchFits) {
  FakeGpu fake;
  GpuTestPlan plan;
  // 20 blocks a sequence's worth: the cache is what is too large.
  for (auto& s : plan.plan.states) {
    s->kv_heads = 2048;
    s->bytes_per_block = 2 * 2048 * 3 * 4 * 4;
  }
  // 5 sequences of 4 blocks in 2 states: 7.5 MiB.
  fake.memory_bytes = (32 << 20) + (5 << 20);
  const absl::Status s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  ExpectSays(s, "device 0 (Fake H200, sm_90): the run needs 40.");
  ExpectSays(s,
             "cache 7.5 MiB for "
             "--max-batch 5 of 16 tokens");
  ExpectSays(s,
             "37.0 MiB are free; --max-batch 3 is the largest that "
             "fits");
  DS_ASSERT_OK(Prepare(&fake, plan, {.max_batch = 3}).executor.status());
  EXPECT_EQ(Prepare(&fake, plan, {.max_batch = 4}).executor.status().code(),
            absl::StatusCode::kResourceExhausted);
  fake.memory_bytes = 32 << 20;
  ExpectSays(Prepare(&fake, plan).executor.status(),
             "not even --max-batch 1 fits");
}

TEST(PrepareCuda, RefusesWhatDoesNotFitTheMachine) {
  FakeGpu fake;
  const GpuTestPlan plan;
  fake.driver = 12080;
  absl::Status s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  ExpectSays(s, "the driver is of CUDA 12.8");
  fake.driver = 13000;
  fake.major = 8;
  fake.minor = 6;
  s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(s.message(),
            "the plan was compiled for sm_90a, device 0 is sm_86 (Fake H200); "
            "recompile it with --target sm_86");
  GpuTestPlan hostile;
  hostile.target().name = "sm_90a\n\x1b[2J";
  s = Prepare(&fake, hostile).executor.status();
  ExpectSays(s, "compiled for sm_90a\\n\\x1b[2J, device 0");
  fake.major = 9;
  fake.minor = 0;
  fake.Fail("ModuleLoadData", kCudaUnsupportedPtxVersion);
  s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  ExpectSays(s, "with a driver of CUDA 13.0");
  EXPECT_EQ(fake.contexts, 0);
}

TEST(PrepareCuda, NoticesDamagedKernels) {
  FakeGpu fake;
  GpuTestPlan plan;
  plan.kernels[plan.target().kernels[2]->offset + 3] ^= 1;
  absl::Status s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
  ExpectSays(s, "test (kernels): kernel 2 (gather 6), bytes ");
  ExpectSays(s, "is damaged");
  // The right hash of what is no kernel.
  plan.Seal();
  s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
  ExpectSays(s, "no kernel");
  plan.kernels.resize(plan.kernels.size() - 1);
  s = Prepare(&fake, plan).executor.status();
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
}

TEST(PrepareCuda, EveryFailureIsAnErrorAndFreesAll) {
  const GpuTestPlan plan(3'000'000);
  for (const char* call :
       {"Init", "DevicePrimaryCtxRetain", "StreamCreate", "MemAlloc",
        "MemHostAlloc", "MemcpyHtoDAsync", "MemsetD8Async", "EventCreate",
        "ModuleLoadData", "ModuleGetFunction", "FuncLoad", "FuncSetAttribute",
        "Create", "MatmulDescCreate", "MatrixLayoutCreate",
        "MatmulAlgoGetHeuristic", "StreamSynchronize"}) {
    for (const int good : {0, 2, 5}) {
      FakeGpu fake;
      fake.Fail(call,
                *call == 'M' && call[1] == 'a' ? kCublasAllocFailed
                                               : kCudaOutOfMemory,
                good);
      Prepared p = Prepare(&fake, plan);
      if (p.executor.ok()) {
        EXPECT_LE(fake.calls(call), good) << call;
        continue;
      }
      EXPECT_NE(p.executor.status().message(), "") << call;
      EXPECT_EQ(fake.allocated(), 0) << call;
      EXPECT_EQ(fake.contexts, 0) << call;
    }
  }
}

// As with a folder: the weights file is read, not its mapping.
TEST(PrepareCuda, ReadsTheWeightsFile) {
  FakeGpu fake;
  InstallTestKernels(&fake);
  GpuTestPlan made(5'300'000);
  const std::string folder =
      testing::TempDir() + "/gpu_plan_" + std::to_string(getpid());
  TestPlan as_files;
  as_files.weights = made.weights;
  flatbuffers::FlatBufferBuilder b;
  fb::FinishPlanBuffer(b, fb::Plan::Pack(b, &made.plan));
  fb::GetPlan(b.GetBufferPointer())->UnPackTo(&as_files.plan);
  std::vector<TestPlan> ranks;
  ranks.push_back(std::move(as_files));
  WritePlanFolder(folder, ranks);
  DS_ASSERT_OK(WriteFile(folder + "/kernels.bin", made.kernels));
  const GpuApis apis = fake.apis();
  auto plan = Plan::Load(folder, 0, {.check_weights = false});
  ASSERT_TRUE(plan.ok()) << plan.status();
  {
    auto executor = PrepareCuda(apis, *plan, {}, {.threads = 3});
    ASSERT_TRUE(executor.ok()) << executor.status();
    const OwnedBatch batch(**executor, {{0, 0, {7}}});
    DS_ASSERT_OK((*executor)->Execute(batch.view()));
    EXPECT_EQ(ToIds(*(*executor)->Sampled()), Ids{made.Next(7)});
  }
  ASSERT_EQ(truncate(plan->weights_path().c_str(), 4'500'000), 0);
  const absl::Status s = PrepareCuda(apis, *plan, {}, {}).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kDataLoss);
  ExpectSays(s, "can't read bytes 4500000 to ");
  ExpectSays(s, "the file was cut");
}

TEST(PrepareCuda, TunesOnceAndKeepsTheChoice) {
  const std::string folder =
      testing::TempDir() + "/gemm_cache_" + std::to_string(getpid());
  const std::string path = folder + "/deepslice/test_set/Fake_H200-130100";
  std::string kept;
  {
    FakeGpu fake;
    Prepared p = Prepare(&fake, GpuTestPlan(), {}, {.cache_folder = folder});
    DS_ASSERT_OK(p.executor.status());
    EXPECT_GT(fake.products.size(), 3u);
    fake.products.clear();
    const OwnedBatch batch(*p.executor->get(), {{0, 0, {7, 8}}});
    DS_ASSERT_OK(p->Execute(batch.view()));
    EXPECT_EQ(fake.products.back().algo, 1u);  // the fastest
    auto file = ReadFile(path, 1 << 20);
    ASSERT_TRUE(file.ok()) << file.status();
    kept = *file;
    EXPECT_TRUE(absl::StrContains(kept,
                                  "16 11x6 f32 f32 a 6 out 11 residual 0: "
                                  "0000000000000001 0000000000000000"))
        << kept;
  }
  {
    FakeGpu fake;
    Prepared p = Prepare(&fake, GpuTestPlan(), {}, {.cache_folder = folder});
    DS_ASSERT_OK(p.executor.status());
    EXPECT_EQ(fake.products.size(), 0u);
    const OwnedBatch batch(*p.executor->get(), {{0, 0, {7, 8}}});
    DS_ASSERT_OK(p->Execute(batch.view()));
    EXPECT_EQ(fake.products.back().algo, 1u);
    // Another card: the file's algorithm is not taken on trust.
    fake.gemm_milliseconds = {3};
  }
  {
    FakeGpu fake;
    fake.gemm_milliseconds = {3};
    Prepared p = Prepare(&fake, GpuTestPlan(), {}, {.cache_folder = folder});
    DS_ASSERT_OK(p.executor.status());
    const OwnedBatch batch(*p.executor->get(), {{0, 0, {7, 8}}});
    DS_ASSERT_OK(p->Execute(batch.view()));
    EXPECT_EQ(fake.products.back().algo, 0u);
  }
  {
    FakeGpu fake;
    Prepared p = Prepare(&fake, GpuTestPlan(), {}, {.cache_folder = folder});
    DS_ASSERT_OK(p.executor.status());
    unlink(path.c_str());
    DS_ASSERT_OK((*p.executor)->Tune({.again = true}));
    EXPECT_TRUE(FileExists(path));
  }
  DS_ASSERT_OK(WriteFile(path, "16 11x6: rubbish\n" + kept.substr(0, 40)));
  FakeGpu fake;
  DS_ASSERT_OK(Prepare(&fake, GpuTestPlan(), {}, {.cache_folder = folder})
                   .executor.status());
}

TEST(PrepareCuda, TunesInVainOnlyWithAWord) {
  // A file stands where the folder should be.
  const std::string file = testing::TempDir() + "/gemm_cache_file";
  DS_ASSERT_OK(WriteFile(file, "x"));
  const std::pair<std::string, std::string> cases[] = {
      {"", "no folder to keep the choices in; set XDG_CACHE_HOME"},
      {file, "can't make it"}};
  for (const auto& [folder, wanted] : cases) {
    FakeGpu fake;
    Prepared p = Prepare(&fake, GpuTestPlan(), {}, {.cache_folder = folder});
    DS_ASSERT_OK(p.executor.status());
    DS_EXPECT_ERROR((*p.executor)->Tune({.again = true}), kFailedPrecondition,
                    wanted);
  }
}

}  // namespace
}  // namespace deepslice
