#include "runtime/executor.h"

#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/comm/local.h"
#include "schema/base/status_matchers.h"
#include "tests/support/plan_builder.h"
#include "tests/support/plan_reference.h"

namespace deepslice {
namespace {

// One sequence's part of a step.
struct Piece {
  int32_t slot;
  int32_t first_position;
  std::vector<int32_t> ids;
  bool want_all = false;  // else the last row's logits
};

// A step's arrays, and the batch that views them. Blocks are dealt so that a
// sequence's are apart and out of order.
struct OwnedBatch {
  std::vector<int32_t> ids, positions, slots, blocks, rows;
  OwnedBatch(const Executor& e, const std::vector<Piece>& pieces) {
    const int64_t n = e.num_blocks();
    for (int64_t i = 0; i < n; ++i) {
      blocks.push_back(static_cast<int32_t>((i * 7 + 3) % n));
    }
    for (const Piece& p : pieces) {
      for (size_t i = 0; i < p.ids.size(); ++i) {
        if (p.want_all || i + 1 == p.ids.size()) rows.push_back(ids.size());
        ids.push_back(p.ids[i]);
        positions.push_back(p.first_position + static_cast<int32_t>(i));
        slots.push_back(p.slot);
      }
    }
  }
  StepBatch view() const { return {ids, positions, slots, blocks, rows, {}}; }
};

struct Prepared {
  std::unique_ptr<Plan> plan;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Executor> executor;
};

Prepared Prepare(const TestPlan& plan, const RunLimits& limits = {},
                 int threads = 1) {
  Prepared out;
  auto loaded = plan.Load();
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  out.plan = std::make_unique<Plan>(*std::move(loaded));
  out.pool = std::make_unique<ThreadPool>(threads);
  auto executor = Executor::Prepare(*out.plan, limits, nullptr, out.pool.get());
  EXPECT_TRUE(executor.ok()) << executor.status();
  out.executor = *std::move(executor);
  return out;
}

// Steps of a small conversation: a prefill, a mixture, decodes.
const std::vector<std::vector<Piece>>& Story() {
  static const auto* story = new std::vector<std::vector<Piece>>{
      {{0, 0, {5, 100, 7, 130, 0}, true}},
      {{2, 0, {9, 8, 7, 6, 5, 4, 3}}, {0, 5, {42}}},
      {{0, 6, {17}}, {2, 7, {130}}},
      {{1, 0, {64}}, {2, 8, {1, 2, 3}, true}, {0, 7, {12}}},
  };
  return *story;
}

class ExecutorEncodings
    : public testing::TestWithParam<std::tuple<Encoding, Encoding, int>> {};

std::string EncodingsName(
    const testing::TestParamInfo<ExecutorEncodings::ParamType>& info) {
  return absl::StrCat(EncodingName(std::get<0>(info.param)), "_cache_",
                      EncodingName(std::get<1>(info.param)), "_threads_",
                      std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    All, ExecutorEncodings,
    testing::Values(std::make_tuple(Encoding::kF32, Encoding::kF32, 1),
                    std::make_tuple(Encoding::kF32, Encoding::kF32, 3),
                    std::make_tuple(Encoding::kBF16, Encoding::kF16, 2),
                    std::make_tuple(Encoding::kF16, Encoding::kBF16, 1),
                    std::make_tuple(Encoding::kI8Row, Encoding::kF32, 2)),
    EncodingsName);

// Every step of the plan equals the reference kernels' composition.
TEST_P(ExecutorEncodings, EveryStepEqualsTheReference) {
  const auto [matrices, cache, threads] = GetParam();
  Prepared p = Prepare(TinyLlama{.matrices = matrices, .cache = cache}.Build(),
                       {}, threads);
  PlanReference reference(*p.plan);
  // The reference keeps its cache in double.
  const bool exact = cache == Encoding::kF32 && matrices != Encoding::kI8Row;
  const double tolerance = exact ? 2e-5 : 3e-2;
  for (size_t s = 0; s < Story().size(); ++s) {
    const OwnedBatch batch(*p.executor, Story()[s]);
    const std::vector<RefTensor> wanted = reference.Execute(batch.view());
    int seen = 0;
    p.executor->SetObserver(
        [&](int step, const float* data, int64_t rows, int64_t cols) {
          ASSERT_EQ(step, seen++);
          const RefTensor& w = wanted[step];
          ASSERT_EQ(rows, w.rows());
          ASSERT_EQ(cols, w.cols());
          double most = 0;
          for (const double v : w.data) most = std::max(most, std::abs(v));
          for (int64_t i = 0; i < rows * cols; ++i) {
            ASSERT_NEAR(data[i], w.data[i], tolerance * most)
                << "story " << s << ", step " << step << ", element " << i;
          }
        });
    DS_ASSERT_OK(p.executor->Execute(batch.view()));
    EXPECT_EQ(seen, static_cast<int>(wanted.size()));
    double most = 0;
    for (const double v : wanted.back().data) {
      most = std::max(most, std::abs(v));
    }
    for (size_t i = 0; i < wanted.back().data.size(); ++i) {
      ASSERT_NEAR((*p.executor->Logits())[i], wanted.back().data[i],
                  tolerance * most);
    }
  }
}

std::vector<float> LastLogits(Executor* e, const std::vector<Piece>& pieces) {
  const OwnedBatch batch(*e, pieces);
  const absl::Status s = e->Execute(batch.view());
  EXPECT_TRUE(s.ok()) << s;
  const float* logits = *e->Logits();
  return std::vector<float>(logits,
                            logits + batch.rows.size() * e->vocab_size());
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b,
                float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance) << "logit " << i;
  }
}

TEST(Executor, PrefillInChunksEqualsPrefillAtOnce) {
  const TestPlan plan = TinyLlama().Build();
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8};
  Prepared whole = Prepare(plan), chunked = Prepare(plan);
  const auto wanted = LastLogits(whole.executor.get(), {{1, 0, ids}});
  std::vector<float> got;
  for (const auto& [begin, end] :
       std::vector<std::pair<int, int>>{{0, 1}, {1, 4}, {4, 10}, {10, 11}}) {
    got = LastLogits(chunked.executor.get(),
                     {{1, begin, {ids.begin() + begin, ids.begin() + end}}});
  }
  ExpectNear(got, wanted, 1e-4f);
}

TEST(Executor, TwoRanksEqualOne) {
  const TestPlan one = TinyLlama().Build();
  Prepared single = Prepare(one);
  std::vector<std::vector<float>> wanted;
  for (const auto& pieces : Story()) {
    wanted.push_back(LastLogits(single.executor.get(), pieces));
  }
  auto comms = MakeLocalComms(2);
  std::vector<std::vector<float>> got[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      auto plan = TinyLlama{.rank = r, .world = 2}.Build().Load();
      ASSERT_TRUE(plan.ok()) << plan.status();
      ThreadPool pool(1);
      auto executor = Executor::Prepare(*plan, {}, comms[r].get(), &pool);
      ASSERT_TRUE(executor.ok()) << executor.status();
      for (const auto& pieces : Story()) {
        got[r].push_back(LastLogits(executor->get(), pieces));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(got[0], got[1]);  // all ranks have the same bits
  ASSERT_EQ(got[0].size(), wanted.size());
  for (size_t s = 0; s < wanted.size(); ++s) {
    ExpectNear(got[0][s], wanted[s], 1e-4f);
  }
}

TEST(Executor, WantsNoRows) {
  Prepared p = Prepare(TinyLlama().Build());
  OwnedBatch batch(*p.executor, {{0, 0, {1, 2, 3}}});
  batch.rows.clear();
  DS_ASSERT_OK(p.executor->Execute(batch.view()));
  // The cache was filled all the same.
  Prepared other = Prepare(TinyLlama().Build());
  LastLogits(other.executor.get(), {{0, 0, {1, 2, 3}}});
  EXPECT_EQ(LastLogits(p.executor.get(), {{0, 3, {4}}}),
            LastLogits(other.executor.get(), {{0, 3, {4}}}));
}

TEST(Executor, LimitsLowerThePlansCeilings) {
  const TestPlan plan = TinyLlama().Build();
  Prepared full = Prepare(plan);
  EXPECT_EQ(full.executor->limits().max_batch, 3);
  EXPECT_EQ(full.executor->limits().max_step_tokens, 16);
  EXPECT_EQ(full.executor->limits().max_seq_len, 20);  // 5 blocks of 4
  EXPECT_EQ(full.executor->num_blocks(), 15);
  Prepared low =
      Prepare(plan, {.max_batch = 2, .max_step_tokens = 5, .max_seq_len = 10});
  EXPECT_EQ(low.executor->blocks_per_seq(), 3);
  EXPECT_EQ(low.executor->num_blocks(), 6);
  EXPECT_EQ(low.executor->memory()[1].planned, 4096);  // 6 x 640 bytes
  EXPECT_LT(low.executor->memory()[0].actual,
            full.executor->memory()[0].actual);
  ExpectNear(LastLogits(low.executor.get(), {{1, 0, {7, 8, 9}}}),
             LastLogits(full.executor.get(), {{1, 0, {7, 8, 9}}}), 0);
}

TEST(Executor, RefusesLimitsBeyondThePlan) {
  const auto plan = TinyLlama().Build().Load();
  DS_ASSERT_OK(plan);
  ThreadPool pool(1);
  const auto prepare = [&](const RunLimits& limits) {
    return Executor::Prepare(*plan, limits, nullptr, &pool);
  };
  DS_EXPECT_ERROR(prepare({.max_batch = 4}), kFailedPrecondition,
                  "--max-batch 4: the plan was compiled for at most 3");
  DS_EXPECT_ERROR(prepare({.max_step_tokens = 17}), kFailedPrecondition,
                  "--max-step-tokens 17");
  DS_EXPECT_ERROR(prepare({.max_seq_len = 21}), kFailedPrecondition,
                  "at most 20");
  DS_EXPECT_ERROR(prepare({.max_seq_len = -1}), kInvalidArgument,
                  "--max-seq-len -1");
}

TEST(Executor, RefusesAnotherPlace) {
  const auto plan = TinyLlama{.rank = 1, .world = 2}.Build().Load();
  DS_ASSERT_OK(plan);
  ThreadPool pool(1);
  DS_EXPECT_ERROR(Executor::Prepare(*plan, {}, nullptr, &pool),
                  kFailedPrecondition,
                  "rank 1 of 2, the launch of rank 0 of 1");
  auto comms = MakeLocalComms(2);
  DS_EXPECT_ERROR(Executor::Prepare(*plan, {}, comms[0].get(), &pool),
                  kFailedPrecondition, "launch of rank 0 of 2");
}

TEST(Executor, RefusesPlansForOtherDevices) {
  ThreadPool pool(1);
  TestPlan gpu = TinyLlama().Build();
  gpu.plan.targets[0]->name = "cpu2";
  gpu.plan.targets[0]->kernels.push_back(std::make_unique<fb::KernelT>());
  gpu.plan.targets[0]->kernels[0]->entry = "Logits";
  gpu.plan.targets[0]->kernels[0]->bytes = 1;
  gpu.program().steps.resize(1);
  gpu.step(0) = fb::StepT();
  gpu.step(0).name = "logits";
  gpu.step(0).kind = fb::StepKind::Launch;
  gpu.step(0).launch = std::make_unique<fb::LaunchStepT>();
  gpu.step(0).launch->outputs = gpu.program().outputs;
  gpu.step(0).launch->grid.assign(3, fb::GridDim(1, 1, -1));
  gpu.step(0).launch->block = {32, 1, 1};
  const auto plan = gpu.Load();
  DS_ASSERT_OK(plan);
  DS_EXPECT_ERROR(Executor::Prepare(*plan, {}, nullptr, &pool),
                  kFailedPrecondition, "its targets are cpu2; recompile");
}

TEST(Executor, RefusesMoreMemoryThanTheMachineHas) {
  TestPlan plan = TinyLlama().Build();
  plan.program().dims[2]->maximum = 1 << 24;  // sequences
  plan.program().dims[3]->maximum = 1 << 10;  // blocks
  plan.plan.max_positions = 0;
  const auto loaded = plan.Load();
  DS_ASSERT_OK(loaded);
  ThreadPool pool(1);
  DS_EXPECT_ERROR(Executor::Prepare(*loaded, {}, nullptr, &pool),
                  kResourceExhausted, "lower --max-batch");
}

TEST(Executor, RefusesBatchesThatTheKernelsCannotRun) {
  Prepared p = Prepare(TinyLlama().Build());
  const OwnedBatch good(*p.executor, {{0, 0, {1, 2, 3}}, {2, 4, {9}}});
  const auto run = [&](const std::function<void(OwnedBatch&)>& change) {
    OwnedBatch bad = good;
    change(bad);
    return p.executor->Execute(bad.view());
  };
  using B = OwnedBatch;
  DS_EXPECT_ERROR(run([](B& b) { b.ids[3] = 131; }), kInvalidArgument,
                  "ids[3] is 131; 0 to 130 are allowed");
  DS_EXPECT_ERROR(run([](B& b) { b.ids[0] = -1; }), kInvalidArgument,
                  "ids[0] is -1");
  DS_EXPECT_ERROR(run([](B& b) { b.positions[3] = 20; }), kInvalidArgument,
                  "positions[3] is 20; 0 to 19");
  DS_EXPECT_ERROR(run([](B& b) { b.positions[1] = 5; }), kInvalidArgument,
                  "positions[1] is 5 after 0 in slot 0");
  DS_EXPECT_ERROR(run([](B& b) { b.slots[3] = 3; }), kInvalidArgument,
                  "slots[3] is 3");
  DS_EXPECT_ERROR(run([](B& b) { b.slots[1] = 1; }), kInvalidArgument,
                  "slots[2] is 0 again");
  DS_EXPECT_ERROR(run([](B& b) { b.rows[1] = 4; }), kInvalidArgument,
                  "rows[1] is 4; 0 to 3");
  DS_EXPECT_ERROR(run([](B& b) { b.rows.resize(17); }), kInvalidArgument,
                  "17 rows; at most 16");
  DS_EXPECT_ERROR(run([](B& b) { b.blocks[11] = 15; }), kInvalidArgument,
                  "blocks[11] is 15");
  DS_EXPECT_ERROR(run([](B& b) { b.blocks[0] = -1; }), kInvalidArgument,
                  "blocks[0] is -1");
  DS_EXPECT_ERROR(run([](B& b) { b.blocks.pop_back(); }), kInvalidArgument,
                  "block table of 14 entries; 3 x 5");
  DS_EXPECT_ERROR(run([](B& b) { b.slots.pop_back(); }), kInvalidArgument,
                  "4 ids, 4 positions and 3 slots");
  DS_EXPECT_ERROR(run([](B& b) {
                    b.ids.clear();
                    b.positions.clear();
                    b.slots.clear();
                  }),
                  kInvalidArgument, "0 tokens; 1 to 16");
  // Entries that no token needs may be anything.
  DS_ASSERT_OK(run([](B& b) { b.blocks[5] = -7; }));
}

TEST(Executor, MatrixWithoutColumnsGivesTheResidual) {
  PlanBuilder b;
  b.AddWeight("embed", {5, 3}, std::vector<float>(15, 2.0f));
  b.AddWeight("none_up", {0, 3}, {});
  b.AddWeight("none_down", {3, 0}, {});
  b.AddWeight("head", {5, 3}, std::vector<float>(15, 1.0f));
  b.AddOp(OpKind::kEmbed, "x", {"ids", "embed"}, {{0}}, "T", 3);
  b.AddOp(OpKind::kLinear, "up", {"x", "none_up"}, {}, "T", 0);
  b.AddOp(OpKind::kActivation, "act", {"up"}, {{0}}, "T", 0);
  b.AddOp(OpKind::kLinear, "down", {"act", "none_down", "", "x"}, {}, "T", 3);
  b.AddOp(OpKind::kLinear, "zero", {"act", "none_down"}, {}, "T", 3);
  b.AddOp(OpKind::kAdd, "sum", {"down", "zero"}, {}, "T", 3);
  b.AddOp(OpKind::kGatherRows, "wanted", {"sum", "rows"}, {}, "R", 3);
  b.AddOp(OpKind::kLinear, "logits", {"wanted", "head"}, {}, "R", 5);
  Prepared p = Prepare(b.Build("logits", 5));
  EXPECT_EQ(LastLogits(p.executor.get(), {{0, 0, {1, 2}}}),
            std::vector<float>(5, 6.0f));
}

}  // namespace
}  // namespace deepslice
