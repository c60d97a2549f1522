#include "runtime/backend/cuda/cuda_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "runtime/engine.h"
#include "runtime/testing/cuda_testing.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

std::vector<int32_t> Wanted(const GpuTestPlan& plan, int32_t id, int count) {
  std::vector<int32_t> out;
  for (int i = 0; i < count; ++i) out.push_back(id = plan.Next(id));
  return out;
}

TEST(CudaExecutor, GeneratesThroughPrefillBucketsAndGraphs) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  EXPECT_TRUE(p->keeps_sampled());
  EXPECT_EQ(p->target(), "sm_90a");
  auto engine = Engine::Create(p.executor->get(), nullptr);
  std::vector<Request> requests(3);
  for (int i = 0; i < 3; ++i) {
    requests[i].prompt = {i, 7, 3 * i + 1};
    requests[i].max_new_tokens = 10 - 2 * i;
  }
  const auto done = engine->Generate(requests);
  ASSERT_TRUE(done.ok()) << done.status();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*done)[i].ids, Wanted(plan, 3 * i + 1, 10 - 2 * i))
        << "request " << i;
  }
  // Each bucket twice at most: for even and odd steps.
  EXPECT_GT(fake.graph_launches, 4);
  EXPECT_LE(fake.calls("GraphInstantiate"), 6);
  EXPECT_FALSE(fake.launches.front().in_graph);
  EXPECT_TRUE(fake.launches.back().in_graph);
}

// The logits behind a token: the plan has no memory.
std::vector<float> RowAfter(const GpuTestPlan& plan, int32_t id) {
  std::vector<float> row(GpuTestPlan::kVocab, 0);
  for (int j = 0; j < GpuTestPlan::kVocab; ++j) {
    for (int i = 0; i < GpuTestPlan::kHidden; ++i) {
      row[j] += plan.embed[id * GpuTestPlan::kHidden + i] *
                plan.head[j * GpuTestPlan::kHidden + i];
    }
  }
  return row;
}

TEST(CudaExecutor, WhatTheDeviceCantDrawIsDrawnFromItsLogits) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  auto engine = Engine::Create(p.executor->get(), nullptr);
  std::vector<Request> requests(5);
  for (int i = 0; i < 5; ++i) {
    requests[i].prompt = {i, 7, 2 * i + 1};
    requests[i].max_new_tokens = 9 - i;
  }
  requests[1].edits.repetition_penalty = 2;
  requests[1].edits.presence_penalty = 0.5f;
  requests[2].beams.width = 3;
  requests[2].n = 2;
  requests[3].sampling = {.greedy = false, .min_p = 0.1f, .seed = 3};
  requests[3].n = 3;
  requests[4].logprobs = 2;
  requests[4].sampling = {.greedy = false, .typical_p = 0.7f, .seed = 5};
  DS_ASSERT_OK_AND_ASSIGN(const auto together, engine->Generate(requests));
  size_t at = 0;
  for (const Request& r : requests) {
    DS_ASSERT_OK_AND_ASSIGN(const auto alone, engine->Generate({r}));
    for (const Completion& c : alone) {
      ASSERT_LT(at, together.size());
      EXPECT_EQ(together[at].ids, c.ids) << at;
      EXPECT_EQ(together[at++].finish, FinishReason::kLength);
    }
  }
  EXPECT_EQ(together[0].ids, Wanted(plan, 1, 9));
  // The penalties, from their definition.
  const Request& r = requests[1];
  TokenHistory history(GpuTestPlan::kVocab, GpuTestPlan::kVocab);
  for (const int32_t id : r.prompt) history.AddPrompt(id);
  int32_t last = r.prompt.back();
  for (const int32_t id : together[1].ids) {
    std::vector<float> row = RowAfter(plan, last);
    EditLogits(r.edits, history, {}, row.data());
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), id);
    history.AddAnswer(last = id);
  }
}

TEST(CudaExecutor, NanLogitsEndTheirSequenceAlone) {
  FakeGpu fake;
  GpuTestPlan plan;
  // Two steps are under way when the device meets it.
  const int32_t third = Wanted(plan, 1, 3).back();
  const std::vector<float> nan(GpuTestPlan::kHidden, std::nanf(""));
  std::memcpy(&plan.weights[plan.plan.weights[0]->offset +
                            third * GpuTestPlan::kHidden * sizeof(float)],
              nan.data(), nan.size() * sizeof(float));
  plan.Seal();
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  auto engine = Engine::Create(p.executor->get(), nullptr);
  const Request bad = {.prompt = {1}, .max_new_tokens = 8};
  Request good = {.prompt = {2}, .max_new_tokens = 6};
  good.edits.bias = {{third, -100}};
  DS_ASSERT_OK_AND_ASSIGN(const auto alone, engine->Generate({good}));
  EXPECT_EQ(alone[0].finish, FinishReason::kLength);
  DS_ASSERT_OK_AND_ASSIGN(const auto done, engine->Generate({bad, good}));
  EXPECT_EQ(done[0].finish, FinishReason::kError);
  ExpectSays(done[0].error, "step 3, position 3: the logits hold NaN");
  EXPECT_EQ(done[0].ids, Wanted(plan, 1, 3));
  EXPECT_EQ(done[1].ids, alone[0].ids);
  // With steps under way behind it.
  const Request other = {.prompt = {third + 1}, .max_new_tokens = 1};
  DS_ASSERT_OK_AND_ASSIGN(const auto ahead, engine->Generate({bad, other}));
  EXPECT_EQ(ahead[0].ids, done[0].ids);
  EXPECT_EQ(ahead[0].finish, FinishReason::kError);
  EXPECT_EQ(ahead[1].finish, FinishReason::kLength);
}

TEST(CudaExecutor, PicksTheSmallestProgramThatHoldsTheStep) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  const auto run = [&](const std::vector<Piece>& pieces) {
    fake.launches.clear();
    fake.products.clear();
    const OwnedBatch batch(*p.executor->get(), pieces);
    const absl::Status s = p->Execute(batch.view());
    EXPECT_TRUE(s.ok()) << s;
    EXPECT_TRUE(p->Sampled().ok());
    return fake.launches.front();
  };
  // Three sequences of one token each: the bucket of 4, at its full size.
  FakeLaunch l = run({{2, 0, {5}}, {0, 0, {6}}, {4, 0, {7}}});
  EXPECT_EQ(l.entry, "embed");
  EXPECT_EQ(Three(l.grid), (std::vector<unsigned>{3 * 2, 2, 1}));
  EXPECT_EQ(Three(l.block), (std::vector<unsigned>{64, 2, 1}));
  EXPECT_TRUE(l.programmatic);
  EXPECT_EQ(fake.products.front().m, 4);
  EXPECT_EQ(fake.products.front().n, 11);
  EXPECT_EQ(fake.products.front().k, 6);
  EXPECT_EQ(fake.launches.back().shared_bytes, 60'000u);
  // A sequence with two: the general program, at the step's size.
  l = run({{2, 1, {5, 6}}, {0, 1, {6}}});
  EXPECT_EQ(l.entry, "embed_tiles");
  EXPECT_EQ(Three(l.grid),
            (std::vector<unsigned>{3 * 2, 2, 1}));  // ceil(3 / 2) by 3
  EXPECT_EQ(fake.products.front().m, 2);            // rows
  // One: the bucket of 1.
  l = run({{1, 0, {5}}});
  EXPECT_EQ(Three(l.grid), (std::vector<unsigned>{3, 2, 1}));
  // Five do not fit the largest bucket that a run of 5 sequences needs: 8.
  l = run({{0, 9, {1}}, {1, 9, {1}}, {2, 9, {1}}, {3, 9, {1}}, {4, 9, {1}}});
  EXPECT_EQ(Three(l.grid), (std::vector<unsigned>{12, 2, 1}));
}

TEST(CudaExecutor, GivesKernelsTheirPointersInOrder) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  fake.launches.clear();  // those of tuning
  const OwnedBatch batch(*p.executor->get(), {{3, 2, {5, 6, 9, 1, 2}}});
  DS_ASSERT_OK(p->Execute(batch.view()));
  const FakeLaunch& l = fake.launches.front();
  ASSERT_EQ(l.params.size(), 8u);
  const auto& info = *l.at<const StepInfo>(0);
  EXPECT_EQ(info.tokens, 5);
  EXPECT_EQ(info.rows, 1);
  EXPECT_EQ(info.tiles, 2);
  EXPECT_EQ(info.blocks_per_seq, 4);
  EXPECT_EQ(info.sampled_rows, 1);
  EXPECT_EQ(Ids(l.at<int32_t>(1), l.at<int32_t>(1) + 5), (Ids{5, 6, 9, 1, 2}));
  EXPECT_EQ(std::memcmp(l.at<char>(2), plan.embed.data(), 4 * 66), 0);
  // The second state, behind the first one's blocks, zero.
  EXPECT_EQ(*l.at<int32_t>(4), 0);
  EXPECT_EQ(l.params[5], 0u);
  EXPECT_EQ(Ids(l.at<int32_t>(6), l.at<int32_t>(6) + 8),
            (Ids{0, 4, 3, 2, 4, 1, 3, 6}));
  // What the gather reads is what the embedding wrote; the sync words start
  // where the operand says.
  EXPECT_EQ(fake.launches[1].params[1], l.params[7]);
  const FakeLaunch& sample = fake.launches[2];
  EXPECT_EQ(sample.entry, "sample");
  EXPECT_EQ(sample.params[4] % 16, 12u);
  const auto ids = p->Sampled();
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ToIds(*ids), (Ids{plan.Next(2)}));
  const auto logits = p->Logits();
  ASSERT_TRUE(logits.ok());
  for (int j = 0; j < 11; ++j) {
    double sum = 0;
    for (int i = 0; i < 6; ++i)
      sum += plan.embed[2 * 6 + i] * plan.head[j * 6 + i];
    EXPECT_NEAR((*logits)[j], sum, 1e-5) << j;
  }
}

TEST(CudaExecutor, StartsAStepBeforeTheLastOnesIdsAreAskedFor) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  const OwnedBatch first(*p.executor->get(), {{0, 0, {5}}, {1, 0, {8}}});
  const OwnedBatch second(*p.executor->get(), {{0, 1, {~0}}, {1, 1, {~1}}});
  DS_ASSERT_OK(p->Execute(first.view()));
  DS_ASSERT_OK(p->Execute(second.view()));
  EXPECT_EQ(p->Execute(second.view()).code(), absl::StatusCode::kInternal);
  auto ids = p->Sampled();
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ToIds(*ids), (Ids{plan.Next(5), plan.Next(8)}));
  ids = p->Sampled();
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ToIds(*ids),
            (Ids{plan.Next(plan.Next(5)), plan.Next(plan.Next(8))}));
  const OwnedBatch bad(*p.executor->get(), {{0, 2, {~2}}});
  EXPECT_EQ(p->Execute(bad.view()).code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaExecutor, CopiesTheBlockTableWhenItChanges) {
  FakeGpu fake;
  Prepared p = Prepare(&fake, GpuTestPlan());
  DS_ASSERT_OK(p.executor.status());
  OwnedBatch batch(*p.executor->get(), {{0, 0, {5}}});
  const auto copies = [&] {
    const int before = fake.calls("MemcpyHtoDAsync");
    EXPECT_TRUE(p->Execute(batch.view()).ok());
    EXPECT_TRUE(p->Sampled().ok());
    return fake.calls("MemcpyHtoDAsync") - before;
  };
  EXPECT_EQ(copies(), 2);
  EXPECT_EQ(copies(), 1);
  std::swap(batch.blocks[3], batch.blocks[17]);
  EXPECT_EQ(copies(), 2);
}

TEST(CudaExecutor, ObserversSeeEveryStep) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  std::vector<std::vector<int64_t>> seen;
  p->SetObserver([&](int step, const float* data, int64_t rows, int64_t cols) {
    seen.push_back({step, rows, cols});
    if (step == 0) {
      EXPECT_EQ(data[0], plan.embed[7 * 6]);
    }
  });
  // In a bucket of 4, three of whose rows are the step's.
  const OwnedBatch batch(*p.executor->get(),
                         {{0, 0, {7}}, {1, 0, {8}}, {2, 0, {9}}});
  for (int i = 0; i < 3; ++i) {
    DS_ASSERT_OK(p->Execute(batch.view()));
    ASSERT_TRUE(p->Sampled().ok());
  }
  ASSERT_EQ(seen.size(), 12u);
  EXPECT_EQ(seen[4], (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(seen[6], (std::vector<int64_t>{2, 3, 11}));
  EXPECT_EQ(seen[7], (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(fake.graph_launches, 0);
}

TEST(CudaExecutor, TimesItsSteps) {
  FakeGpu fake;
  Prepared p = Prepare(&fake, GpuTestPlan());
  DS_ASSERT_OK(p.executor.status());
  DS_ASSERT_OK(p->TimeSteps(true));
  const OwnedBatch batch(*p.executor->get(), {{0, 0, {7}}});
  for (int i = 0; i < 2; ++i) {
    DS_ASSERT_OK(p->Execute(batch.view()));
    ASSERT_TRUE(p->Sampled().ok());
  }
  const auto timings = p->TakeTimings();
  ASSERT_TRUE(timings.ok());
  ASSERT_EQ(timings->size(), 8u);
  const Executor::StepTiming& t = (*timings)[4];
  EXPECT_EQ(t.program, "decode_1");
  EXPECT_EQ(t.name, "x");
  EXPECT_EQ(t.kind, "embed");
  EXPECT_EQ(t.layer, 0);
  EXPECT_EQ(t.us, 250);
  EXPECT_EQ((*timings)[6].kind, "gemm");
  EXPECT_GT(t.begin_us, (*timings)[3].begin_us);
  EXPECT_TRUE(p->TakeTimings()->empty());
  const auto bandwidth = p->MeasureReadBandwidth();
  ASSERT_TRUE(bandwidth.ok()) << bandwidth.status();
  EXPECT_GT(*bandwidth, 1e9);
}

TEST(CudaExecutor, NamesTheStepThatFails) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  fake.Fail("LaunchKernelEx", kCudaIllegalAddress, 1);
  const OwnedBatch batch(*p.executor->get(), {{0, 0, {7}}});
  const absl::Status s = p->Execute(batch.view());
  EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(s.message(),
            "step 1 (picked, gather 6): CUDA_ERROR_ILLEGAL_ADDRESS (700): an "
            "illegal memory access was encountered");
  EXPECT_EQ(p->Execute(batch.view()), s);  // and every later one
  EXPECT_EQ(p->Sampled().status(), s);
}

TEST(CudaExecutor, NamesTheStepOfALateErrorWhenItWaitsForEach) {
  FakeGpu fake;
  Prepared late = Prepare(&fake, GpuTestPlan());
  DS_ASSERT_OK(late.executor.status());
  const OwnedBatch batch(*late.executor->get(), {{0, 0, {7}}});
  DS_ASSERT_OK(late->Execute(batch.view()));
  fake.Fail("EventQuery", kCudaIllegalAddress);
  EXPECT_EQ(late->Sampled().status().message(),
            "device 0 (Fake H200, sm_90): program decode_1 of step 0; run "
            "again with DEEPSLICE_SYNC_STEPS=1 to learn at which kernel: "
            "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was "
            "encountered");
  Prepared synced = Prepare(&fake, GpuTestPlan(), {}, {.sync_steps = true});
  DS_ASSERT_OK(synced.executor.status());
  ExpectSays(synced->Execute(batch.view()), "step 0 (x, embed 11x6): device 0");
}

TEST(CudaExecutor, EveryFailureOfAStepIsAnError) {
  const GpuTestPlan plan;
  for (const char* call :
       {"CtxSetCurrent", "MemcpyHtoDAsync", "MemcpyDtoHAsync", "EventRecord",
        "EventQuery", "StreamWaitEvent", "LaunchKernelEx", "Matmul",
        "MatrixLayoutSetAttribute", "StreamBeginCapture", "StreamEndCapture",
        "GraphInstantiate", "GraphUpload", "GraphLaunch"}) {
    FakeGpu fake;
    Prepared p = Prepare(&fake, plan);
    DS_ASSERT_OK(p.executor.status());
    fake.Fail(call, kCudaIllegalAddress, 1);
    const OwnedBatch batch(*p.executor->get(), {{0, 0, {7}}});
    absl::Status failed;
    for (int step = 0; step < 6 && failed.ok(); ++step) {
      failed = p->Execute(batch.view());
      if (failed.ok()) failed = p->Sampled().status();
    }
    EXPECT_EQ(failed.code(), absl::StatusCode::kInternal) << call;
    if (failed.ok()) continue;
    EXPECT_FALSE(p->Execute(batch.view()).ok()) << call;
    fake.Fail(call, 0);
    p.executor->reset();
    EXPECT_EQ(fake.allocated(), 0) << call;
  }
}

// Rank 0 of two, the other of which has rank 0's part plus 100.
class PairComm final : public DeviceComm {
 public:
  explicit PairComm(std::vector<int64_t>* gathered) : gathered_(gathered) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status AllReduceSum(const void*, void*, int64_t, DType,
                            CUstream) override {
    return absl::UnimplementedError("");
  }
  absl::Status AllGather(const void* in, void* out, int64_t count, DType type,
                         CUstream stream) override {
    gathered_->push_back(count);
    CurrentFakeGpu()->Do(stream, [=] {
      const auto* from = static_cast<const float*>(in);
      auto* to = static_cast<float*>(out);
      for (int64_t i = 0; i < count; ++i) {
        to[i] = from[i];
        to[count + i] = from[i] + 100;
      }
    });
    return absl::OkStatus();
  }
  absl::Status Broadcast(void* data, int64_t bytes, CUstream) override {
    broadcast_bytes = bytes;
    return absl::OkStatus();
  }
  absl::Status Check() override { return lost; }
  void Abort(const absl::Status& why) override {}

  int64_t broadcast_bytes = 0;
  absl::Status lost;

 private:
  std::vector<int64_t>* const gathered_;
};

class HostComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status AllReduceSum(float*, int64_t) override {
    return absl::OkStatus();
  }
  absl::Status AllGatherColumns(const float*, float*, int64_t,
                                int64_t) override {
    return absl::OkStatus();
  }
  absl::Status Broadcast(void*, int64_t) override { return absl::OkStatus(); }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort(const absl::Status&) override {}
};

TEST(CudaExecutor, GathersFewRowsCloseTogetherAndSpreadsThem) {
  FakeGpu fake;
  GpuTestPlan plan;
  plan.MakeTwoRanks();
  // [2][16 or bucket][6] to [rows, 11]: 5 columns of each rank, and one more.
  fake.OnLaunch("ungather", [](const FakeLaunch& l) {
    const auto& info = *l.at<const StepInfo>(0);
    const int most = info.tiles > 0 ? 16 : 2;
    for (int r = 0; r < info.rows; ++r) {
      for (int c = 0; c < 11; ++c) {
        const int rank = c / 6;
        l.at<float>(3)[r * 11 + c] =
            l.at<const float>(1)[(rank * most + r) * 6 + c % 6];
      }
    }
  });
  HostComm host;
  std::vector<int64_t> gathered;
  PairComm* comm = nullptr;
  CudaOptions options;
  options.comm = &host;
  options.connect = [&](const GpuContext&, const KernelTable&) {
    auto made = std::make_unique<PairComm>(&gathered);
    comm = made.get();
    return absl::StatusOr<std::unique_ptr<DeviceComm>>(std::move(made));
  };
  Prepared p = Prepare(&fake, plan, {}, options);
  DS_ASSERT_OK(p.executor.status());
  const auto check = [&](const OwnedBatch& batch) {
    DS_ASSERT_OK(p->Execute(batch.view()));
    const auto logits = p->Logits();
    ASSERT_TRUE(logits.ok());
    for (size_t r = 0; r < batch.rows.size(); ++r) {
      const int32_t id = batch.ids[batch.rows[r]];
      for (int c = 0; c < 5; ++c) {
        double sum = 0;
        for (int i = 0; i < 6; ++i) {
          sum += plan.embed[id * 6 + i] * plan.head[c * 6 + i];
        }
        EXPECT_NEAR((*logits)[r * 11 + c], sum, 1e-5);
        EXPECT_NEAR((*logits)[r * 11 + 6 + c], (*logits)[r * 11 + c] + 100,
                    1e-4);
      }
    }
    ASSERT_TRUE(p->Sampled().ok());
  };
  // 3 tokens of 16: sent as they are, then moved apart.
  check(OwnedBatch(*p.executor->get(), {{0, 0, {7, 8}}, {1, 0, {9}}}));
  EXPECT_EQ(gathered.back(), 3 * 6);
  EXPECT_EQ(comm->broadcast_bytes, 2 * 4);
  // 9 of 16: all at once.
  check(OwnedBatch(*p.executor->get(), {{2, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}}}));
  EXPECT_EQ(gathered.back(), 16 * 6);
  // A bucket is gathered whole.
  check(OwnedBatch(*p.executor->get(), {{3, 0, {7}}, {4, 0, {4}}}));
  EXPECT_EQ(gathered.back(), 2 * 6);
}

}  // namespace
}  // namespace deepslice
